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
