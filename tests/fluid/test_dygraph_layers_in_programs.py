"""Layers of `fluid.dygraph` build programs too: their parameters are those of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.once import own_programs

D = fluid.dygraph
IMAGES, ROWS = np.random.RandomState(0).rand(2, 3, 8, 8), np.random.RandomState(1).rand(2, 4)
LAYERS: dict[str, tuple[Callable[[], Any], np.ndarray, list[str]]] = {
    "Linear": (lambda: D.Linear(4, 3, act="relu"), ROWS, ["weight", "bias"]),
    "Conv2D": (lambda: D.Conv2D(3, 4, 3), IMAGES, ["weight", "bias"]),
    "LayerNorm": (lambda: D.LayerNorm(4), ROWS, ["weight", "bias"]),
    "PRelu": (lambda: D.PRelu("all"), ROWS - 0.5, ["weight"]),
    "Embedding": (lambda: D.Embedding([10, 4]), np.arange(6).reshape(2, 3), ["weight"]),
    "Sequential": (
        lambda: D.Sequential(D.Linear(4, 3), D.Linear(3, 2, bias_attr=False)),
        ROWS,
        ["0.weight", "0.bias", "1.weight"],
    ),
}


def _loss(layer: Any, x: Any) -> Any:
    return fluid.layers.reduce_mean(fluid.layers.square(layer(x)))


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_train_in_programs(kind: str) -> None:
    make, fed, names = LAYERS[kind]
    fed = fed.astype("int64" if fed.dtype == np.int64 else "float32")
    with own_programs():
        layer = make()
        x = fluid.data("x", list(fed.shape), str(fed.dtype))
        loss = _loss(layer, x)
        assert list(layer.state_dict()) == names
        assert layer.parameters() == fluid.default_main_program().all_parameters()
        fluid.optimizer.SGD(0.1, parameter_list=layer.parameters()).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        found = [fluid.global_scope().find_var(one.name) for one in layer.parameters()]
        values = [np.array(one.get_tensor()) for one in found]
        before, after = (exe.run(feed={"x": fed}, fetch_list=[loss])[0] for _ in range(2))
    assert after < before
    with D.guard():
        layer = make()
        for one, value in zip(layer.parameters(), values, strict=True):
            one.set_value(value)
        assert np.allclose(_loss(layer, D.to_variable(fed)).numpy(), before, rtol=1e-5)


def test_is_test_of_a_layer_counts_in_programs_alone() -> None:
    """As Fluid documents it, and as paddle 2.6.2 does: in dygraph `eval()` says so."""
    values = np.random.RandomState(3).rand(6, 4).astype("float32")
    made = [lambda: D.BatchNorm(4, is_test=True), lambda: D.Dropout(0.5, is_test=True)]
    with D.guard():
        x = D.to_variable(values)
        x.stop_gradient = False
        norm, drop = (make() for make in made)
        out = norm(x)
        np.testing.assert_allclose(out.numpy().mean(0), np.zeros(4), atol=1e-5)
        np.testing.assert_allclose(norm._mean.numpy(), 0.1 * values.mean(0), rtol=1e-5)
        dropped = drop(x)
        assert set(np.unique(dropped.numpy() / values)) == {0.0, 1.0}
        (out * out + dropped).backward()
        assert x.gradient().shape == (6, 4)
        for layer, tested in ((norm, values), (drop, 0.5 * values)):
            layer.eval()
            scale = np.sqrt(norm._variance.numpy() + 1e-5) if layer is norm else 1.0
            shift = norm._mean.numpy() if layer is norm else 0.0
            np.testing.assert_allclose(layer(x).numpy(), (tested - shift) / scale, rtol=1e-4)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        for make in made:
            make()(fluid.data(fluid.unique_name.generate("x"), [6, 4]))
    assert [op.attr("is_test") for op in main.global_block().ops] == [True, True]
