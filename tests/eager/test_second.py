"""Gradients of gradients in dygraph: right where they are there, refused in words elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph
from refluid.fluid.layer_helper import LayerHelper
from refluid.ops.registry import forget, gradient, operator

L = fluid.layers
DRAW = np.random.default_rng(3)
Layer = Callable[[Any], Any]


def _image(x: Any) -> Any:
    return L.reshape(x, [2, 2, 2, 1])


def _labels() -> Any:
    return dygraph.to_variable(np.array([[0], [2]], "int64"))


def _half() -> Any:
    return dygraph.to_variable(np.full((2, 4), 0.5))


def _rows(x: Any) -> Any:
    ids = dygraph.to_variable(np.array([1, 0], "int64"))
    return L.scatter(x, ids, x * x)


def _both(x: Any) -> Any:
    return L.concat(L.softmax_with_cross_entropy(x, _labels(), return_softmax=True), 1)


def _normed(x: Any) -> Any:
    with fluid.unique_name.guard():
        return L.inplace_abn(_image(x))


def _unit(x: Any) -> Any:
    return dygraph.GRUUnit(6, dtype="float64")(L.concat([x, x[:, :2]], 1), x[:, 2:])[0]


RIGHT: dict[str, Callable[[], Layer]] = {
    "instance norm": lambda: lambda x: dygraph.InstanceNorm(2, dtype="float64")(_image(x)),
    "batch norm": lambda: lambda x: dygraph.BatchNorm(2, dtype="float64")(_image(x)),
    "layer norm": lambda: dygraph.LayerNorm([4], dtype="float64"),
    "length": lambda: lambda x: L.l2_normalize(x, 1),
    "softmax": lambda: L.softmax,
    "slice": lambda: lambda x: x[:, 1:3],
    "swish": lambda: L.swish,
    "greater": lambda: lambda x: L.elementwise_max(x, x * x),
    "smaller of rows": lambda: lambda x: L.elementwise_min(x, L.reduce_mean(x, 1), axis=0),
    "divergence": lambda: lambda x: L.kldiv_loss(x, _half(), "none"),
    "soft labels": lambda: lambda x: L.cross_entropy(x, _half(), soft_label=True),
}
ABSENT: dict[str, Layer] = {
    "cross_entropy2": lambda x: L.cross_entropy(L.softmax(x), _labels()),
    "smooth_l1_loss": lambda x: L.smooth_l1(x, x * 0.5),
    "cos_sim": lambda x: L.cos_sim(x, x * x + 1.0),
    "group_norm": lambda x: dygraph.GroupNorm(2, 1, dtype="float64")(_image(x)),
    "maxout": lambda x: L.maxout(L.reshape(x, [1, 8, 1, 1]), 2),
    "gru_unit": lambda x: dygraph.GRUUnit(6, dtype="float64")(L.concat([x, x], 1)[:, :6], x[:, :2])[
        0
    ],
    "kldiv_loss": lambda x: L.kldiv_loss(x, x * x),
    "cross_entropy": lambda x: L.cross_entropy(x, x * x, soft_label=True),
    "scatter": _rows,
    "spectral_norm": lambda x: dygraph.SpectralNorm([2, 4], dtype="float64")(x),
    "inplace_abn": lambda x: _normed(x),
    "softmax_with_cross_entropy": _both,
    "hierarchical_sigmoid": lambda x: L.hsigmoid(x, _labels(), 4),
}


def _penalty(layer: Layer, value: Any) -> tuple[Any, Any]:
    """The squared gradient of the layer's results, and the variable that it is of."""
    x = dygraph.to_variable(value)
    x.stop_gradient = False
    y = layer(x)
    (first,) = dygraph.grad(L.reduce_sum(y * y * y), [x], create_graph=True)
    return L.reduce_sum(first * first), x


@pytest.mark.parametrize("name", RIGHT)
def test_they_agree_with_differences(name: str) -> None:
    value, direction = DRAW.uniform(0.2, 1.2, (2, 4)), DRAW.standard_normal((2, 4))
    with dygraph.guard():
        layer = RIGHT[name]()
        ends = [_penalty(layer, value + step * direction)[0].numpy() for step in (1e-5, -1e-5)]
        penalty, x = _penalty(layer, value)
        penalty.backward()
        slope = (x.gradient() * direction).sum()
    assert slope == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("times", [1, 4])  # calls that come again are kept, and run otherwise
@pytest.mark.parametrize("name", ABSENT)
def test_what_depends_on_what_was_kept_for_the_first_is_refused(name: str, times: int) -> None:
    value = DRAW.uniform(0.2, 1.2, (2, 4)).astype("float32" if "hier" in name else "float64")
    with dygraph.guard():
        for _ in range(times):
            penalty, _ = _penalty(ABSENT[name], value)
        with pytest.raises(EnforceNotMet, match=f"operator {name}_grad has no gradient"):
            penalty.backward()


def test_what_torch_cannot_derive_is_said_in_words() -> None:
    with dygraph.guard():
        value = DRAW.uniform(0.2, 1.2, (2, 4))
        half = dygraph.to_variable(np.full((2, 4), 0.5))
        penalty, _ = _penalty(lambda x: L.sigmoid_cross_entropy_with_logits(x, half), value)
        with pytest.raises(EnforceNotMet, match="an operator whose gradient has none"):
            penalty.backward()


@pytest.fixture
def doubled() -> Iterator[Layer]:
    """An operator of a user's own, whose gradient computes with NumPy."""

    @operator("doubled_by_numpy", outputs="Out", uses="")
    def double(X: torch.Tensor) -> torch.Tensor:
        """2 * X."""
        return X * 2.0

    @gradient("doubled_by_numpy")
    def double_grad(d_Out: torch.Tensor) -> torch.Tensor:
        """2 * d_Out."""
        return torch.from_numpy(2.0 * d_Out.numpy())

    def layer(x: Any) -> Any:
        helper = LayerHelper("doubled_by_numpy")
        out = helper.create_variable_for_type_inference("float64")
        helper.append_op(type="doubled_by_numpy", inputs={"X": [x]}, outputs={"Out": [out]})
        return out

    yield layer
    for name in ("doubled_by_numpy", "doubled_by_numpy_grad"):
        forget(name)


def test_what_autograd_knows_nothing_of_is_refused(doubled: Layer) -> None:
    value = DRAW.uniform(0.2, 1.2, (2, 4))
    with dygraph.guard():
        penalty, _ = _penalty(doubled, value)
        np.testing.assert_allclose(penalty.numpy(), [np.square(24.0 * value**2).sum()])
        with pytest.raises(EnforceNotMet, match="doubled_by_numpy_grad has no gradient"):
            penalty.backward()


def test_a_slope_that_fluid_drops_is_no_error() -> None:
    """Of softmax_with_cross_entropy only the loss has a gradient, once and twice."""
    with dygraph.guard():
        x = dygraph.to_variable(DRAW.uniform(0.2, 1.2, (2, 4)).astype("float32"))
        x.stop_gradient = False
        loss, chances = L.softmax_with_cross_entropy(x, _labels(), return_softmax=True)
        total = L.reduce_sum(loss) + L.reduce_sum(chances * chances)
        (first,) = dygraph.grad(total, [x], create_graph=True)
        again = dygraph.grad(total, [x], create_graph=True)[0]
        np.testing.assert_array_equal(first.numpy(), again.numpy())
