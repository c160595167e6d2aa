"""Python operators and layers on variables of each type, as Fluid has them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet

L = fluid.layers


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def _run(out: fluid.Variable, value: Any) -> Any:
    executor = fluid.Executor(fluid.CPUPlace())
    return executor.run(out.block.program, feed={"x": value}, fetch_list=[out])[0]


def _ops(out: fluid.Variable) -> list[str]:
    return [op.type for op in out.block.ops]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    "apply, kinds, expected",
    [
        (lambda x: x / 2, ["fill_constant", "elementwise_div"], [-1, 0, 0, 2]),
        (lambda x: x / 1.5, ["fill_constant", "elementwise_div"], [-3, 1, 1, 5]),
        (lambda x: 7 / x, ["fill_constant", "elementwise_div"], [-2, 7, 7, 1]),
        (lambda x: x // 2.5, ["fill_constant", "elementwise_floordiv"], [-1, 0, 0, 2]),
        (lambda x: x % 2.5, ["fill_constant", "elementwise_mod"], [-1, 1, 1, 1]),
        (lambda x: x**2.5, ["fill_constant", "elementwise_pow"], [9, 1, 1, 25]),
        (lambda x: 2.5**x, ["fill_constant", "elementwise_pow"], [0, 2, 2, 32]),
        (lambda x: x == 1.5, ["fill_constant", "equal"], [False, True, True, False]),
        (lambda x: x < 1.5, ["fill_constant", "less_than"], [True, False, False, False]),
        (lambda x: x >= 1.5, ["fill_constant", "greater_equal"], [False, True, True, True]),
        (lambda x: x * 2.0, ["scale"], [-6, 2, 2, 10]),
    ],
)
def test_a_number_becomes_an_integer_beside_integers(
    apply: Callable[[Any], fluid.Variable], kinds: list[str], expected: list[Any], dtype: str
) -> None:
    out = apply(fluid.data("x", [4], dtype))
    found = _run(out, np.array([-3, 1, 1, 5], dtype))
    assert found.tolist() == expected
    assert _ops(out) == kinds
    assert str(found.dtype) == ("bool" if isinstance(expected[0], bool) else dtype)


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul])
def test_a_fraction_can_not_be_added_to_integers(apply: Callable[[Any, Any], Any]) -> None:
    x = fluid.data("x", [4], "int64")
    for pair in ((x, 1.5), (1.5, x)):
        with pytest.raises(AssertionError, match=r"float value 1\.5 cannot convert to integer"):
            apply(*pair)


@pytest.mark.parametrize("apply", [operator.truediv, operator.pow])
def test_a_number_before_an_unknown_batch_is_float32(apply: Callable[[Any, Any], Any]) -> None:
    out = apply(2.0, fluid.data("x", [None, 2]))
    assert _ops(out)[0] == "fill_constant_batch_size_like" and out.shape == (-1, 2)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    np.testing.assert_allclose(_run(out, x), apply(2.0, x), rtol=1e-6)


def test_a_number_before_an_unknown_batch_of_another_type_is_refused() -> None:
    out = 2.0 / fluid.data("x", [None, 2], "float64")
    assert out.dtype == fluid.core.VarDesc.VarType.FP64
    with pytest.raises(EnforceNotMet, match="Tensor holds the wrong type"):
        _run(out, np.ones((3, 2)))


def test_everything_backwards_is_one_reverse() -> None:
    out = fluid.data("x", [3, 2])[::-1]
    x = np.arange(6, dtype="float32").reshape(3, 2)
    assert _ops(out) == ["reverse"] and out.name.startswith("x_slice_reverse")
    np.testing.assert_array_equal(_run(out, x), x[::-1])


@pytest.mark.parametrize("item", [slice(1, 1), slice(5, None), slice(0, 0)])
def test_a_slice_takes_something(item: slice) -> None:
    with pytest.raises(EnforceNotMet, match="end should be greater than start"):
        fluid.data("x", [3, 2])[item]


@pytest.mark.parametrize("name", ["relu", "sqrt", "log", "softmax", "mean", "swish", "elu", "selu"])
def test_integers_are_refused_by_layers_of_floating_numbers(name: str) -> None:
    argument = "input" if name == "softmax" else "x"
    says = rf"The data type of '{argument}' in {name} must be \[.*'float64'\], but received int64"
    with pytest.raises(TypeError, match=says):
        getattr(L, name)(fluid.data("x", [4], "int64"))


@pytest.mark.parametrize(
    "layer, dtype, says",
    [
        (lambda x: L.fc(x, 3), "int64", "'input' in fc"),
        (lambda x: L.layer_norm(x), "int32", "'input' in layer_norm"),
        (lambda x: L.dropout(x, 0.5), "int64", "'x' in dropout"),
        (lambda x: L.embedding(x, [5, 2]), "int32", "'input' in embedding"),
        (lambda x: L.one_hot(x, 3), "float32", "'input' in one_hot"),
        (lambda x: L.label_smooth(x), "int64", "'label' in label_smooth"),
    ],
)
def test_layers_name_the_argument_of_another_type(
    layer: Callable[[Any], Any], dtype: str, says: str
) -> None:
    with pytest.raises(TypeError, match=f"The data type of {says} must be .* received {dtype}"):
        layer(fluid.data("x", [4, 1], dtype))


@pytest.mark.parametrize("name", ["exp", "abs", "square"])
def test_some_layers_take_integers(name: str) -> None:
    out = getattr(L, name)(fluid.data("x", [3], "int64"))
    found = _run(out, np.array([0, 1, 2]))
    assert found.tolist() == {"exp": [1, 2, 7], "abs": [0, 1, 2], "square": [0, 1, 4]}[name]


def test_comparisons_take_no_bool_and_no_y_of_higher_rank() -> None:
    flag = fluid.data("x", [4], "bool")
    with pytest.raises(TypeError, match="The data type of 'x' in equal"):
        L.equal(flag, flag)
    short, long = fluid.data("a", [4], "int64"), fluid.data("b", [3, 4], "int64")
    with pytest.raises(EnforceNotMet, match="dim_y should not be greater than dim_x"):
        L.less_than(short, long)


def test_what_is_not_finite_is_declared_of_the_type_given() -> None:
    x = fluid.data("x", [3])
    for layer in (L.has_inf, L.has_nan):
        assert layer(x).dtype == x.dtype
    assert _run(L.has_inf(x), np.array([1.0, np.inf, 0.0], "float32")).tolist() == [True]


def test_swish_and_auc_say_what_they_ignore(caplog: pytest.LogCaptureFixture) -> None:
    out = L.swish(fluid.data("x", [2]), beta=3.25)
    x = np.array([1.0, -2.0], "float32")
    np.testing.assert_allclose(_run(out, x), x / (1 + np.exp(-x)), rtol=1e-6)
    assert "ignores beta" in caplog.text


def test_the_gradient_of_the_only_input_without_one_is_an_empty_list() -> None:
    x, y = fluid.data("x", [2, 3]), fluid.data("y", [2, 3])
    x.stop_gradient = y.stop_gradient = False
    loss = L.mean(L.clip_by_norm(x, 1.0))
    assert fluid.gradients(loss, x) == []
    assert fluid.gradients(loss, [x, y]) == [None, None]


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_labels_of_npair_loss_may_be_a_vector(dtype: str) -> None:
    anchor, positive = (fluid.data(name, [4, 3]) for name in ("a", "p"))
    loss = L.npair_loss(anchor, positive, fluid.data("labels", [4], dtype))
    rows = np.linspace(-2, 3, 12, dtype="float32").reshape(4, 3)
    feed = {"a": rows, "p": rows, "labels": np.array([1, 2, 1, 3], dtype)}
    found = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[loss])[0]
    np.testing.assert_allclose(found, [4.343], rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_before_several_unknown_sizes(dtype: str) -> None:
    out = 2.0 / fluid.data("x", [None, 2, None], dtype)
    assert out.shape == (-1, 2, -1)
    x = np.arange(1.0, 13.0).reshape(3, 2, 2).astype(dtype)
    np.testing.assert_allclose(_run(out, x), 2.0 / x, rtol=1e-6)
