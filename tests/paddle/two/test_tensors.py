"""Variables that have their values, as Paddle 2's tensors: operators, indices, members, hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid import fluid
from refluid.core.places import CPUPlace

RANDOM = np.random.RandomState(9)
VALUE = RANDOM.randn(4, 3, 5).astype("float32")


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        yield
    finally:
        paddle.enable_static()


INDICES: dict[str, Any] = {
    "none": (Ellipsis, None),
    "none between": (slice(None), None, 2),
    "list": [2, 0, 2],
    "list of numbers and slices": ([0, 3], slice(1, None), 2),
    "lists": ([0, 1, 2], [2, 1, 0]),
    "array": np.array([3, 1]),
    "mask": VALUE > 0.3,
    "mask of rows": np.array([True, False, True, True]),
    "number": 2,
    "numbers": (1, -1, 3),
    "slices": (slice(None, None, 2), slice(1, 3)),
}


def _own(index: Any) -> Any:
    """The same index of variables instead of arrays and lists."""
    if isinstance(index, tuple):
        return tuple(_own(one) for one in index)
    return paddle.to_tensor(np.asarray(index)) if isinstance(index, list | np.ndarray) else index


@pytest.mark.parametrize("of_variables", [False, True])
@pytest.mark.parametrize("name", INDICES)
def test_indices(name: str, of_variables: bool) -> None:
    index = INDICES[name]
    x = paddle.to_tensor(VALUE, stop_gradient=False)
    found = x[_own(index) if of_variables else index]
    wanted = VALUE[index]
    np.testing.assert_array_equal(found.numpy(), wanted.reshape(found.shape))
    (found * 2.0).sum().backward()
    gradient = np.zeros_like(VALUE)
    np.add.at(gradient, index, 2.0)
    np.testing.assert_array_equal(x.grad.numpy(), gradient)


@pytest.mark.parametrize("of_variables", [False, True])
@pytest.mark.parametrize("name", [one for one in INDICES if "none" not in one])
def test_elements_are_set(name: str, of_variables: bool) -> None:
    index, wanted = INDICES[name], VALUE.copy()
    own = _own(index) if of_variables else index
    x = paddle.to_tensor(VALUE)
    x[own] = 7.0
    wanted[index] = 7.0
    np.testing.assert_array_equal(x.numpy(), wanted)
    drawn = np.asarray(RANDOM.rand(*np.shape(VALUE[index])), "float32")
    x[own] = paddle.to_tensor(drawn)
    wanted[index] = drawn
    np.testing.assert_array_equal(x.numpy(), wanted)
    x[own] = drawn + 1
    wanted[index] = drawn + 1
    np.testing.assert_array_equal(x.numpy(), wanted)


def test_gradients_pass_by_what_was_set() -> None:
    x = paddle.to_tensor(VALUE, stop_gradient=False)
    value = paddle.to_tensor(np.ones(5, "float32"), stop_gradient=False)
    y = x * 2
    y[1, 2] = value * 3
    (y * y).sum().backward()
    wanted = 8 * VALUE
    wanted[1, 2] = 0
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(value.grad.numpy(), np.full(5, 18))
    with pytest.raises(ValueError, match="can't use inplace strategy"):
        x[0] = 1.0


def test_operators_that_fluid_lacks() -> None:
    x, y = paddle.to_tensor(VALUE[0]), paddle.to_tensor(VALUE[1].T.copy())
    np.testing.assert_allclose((x @ y).numpy(), VALUE[0] @ VALUE[1].T, rtol=1e-5)
    a, b = VALUE[0] > 0, VALUE[1] > 0
    p, q = paddle.to_tensor(a), paddle.to_tensor(b)
    for found, wanted in ((p & q, a & b), (p | q, a | b), (p ^ q, a ^ b), (~p, ~a)):
        assert found.numpy().tolist() == wanted.tolist()
    np.testing.assert_allclose((x + VALUE[1]).numpy(), VALUE[0] + VALUE[1])
    np.testing.assert_allclose((VALUE[1] - x).numpy(), VALUE[1] - VALUE[0])
    np.testing.assert_array_equal((x // 0.5).numpy(), np.floor(VALUE[0] / 0.5))


def test_whole_numbers_become_float32_as_in_paddle_2_only() -> None:
    x = paddle.to_tensor([1, 2, 5])
    found = [x / 2, x / x, x * 1.5, x + 0.5, x * 2, x // 2, 2 / x]
    kinds = [one.numpy().dtype.name for one in found]
    assert kinds == ["float32"] * 4 + ["int64"] * 2 + ["float32"]
    assert found[0].tolist() == [0.5, 1.0, 2.5] and found[3].tolist() == [1.5, 2.5, 5.5]
    with fluid.dygraph.guard():
        whole = fluid.dygraph.to_variable(np.array([1, 2, 5]))
        assert (whole / 2).numpy().tolist() == [0, 1, 2]


def test_members() -> None:
    x = paddle.to_tensor(VALUE)
    assert (x.ndim, x.dim(), x.size, x.element_size()) == (3, 3, 60, 4)
    assert x.T.shape == [5, 3, 4] and x.strides == [15, 5, 1]
    assert isinstance(x.place, CPUPlace) and x.cpu() is x and x.contiguous() is x
    assert x.is_floating_point() and not x.is_integer() and x.item(7) == VALUE.item(7)
    assert x.to("float64").dtype == paddle.float64 and x.to(x.astype("int32")).is_integer()
    assert x.to("cpu", "int64").is_integer() and x.data is x
    np.testing.assert_allclose(x[0].pinv().numpy(), np.linalg.pinv(VALUE[0]), rtol=1e-3, atol=1e-5)
    other = paddle.zeros([4, 3, 5])
    other.copy_(x, True)
    np.testing.assert_array_equal(other.numpy(), VALUE)
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [2, 3])
        assert x.ndim == 2 and tuple(x.T.shape) == (3, 2) and tuple((x @ x.T).shape) == (2, 2)


def test_gradients_are_variables() -> None:
    x = paddle.to_tensor(VALUE, stop_gradient=False)
    assert x.grad is None
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    np.testing.assert_allclose((x.grad * 0.5).numpy(), VALUE, rtol=1e-6)
    loss.backward(paddle.to_tensor([3.0]))
    np.testing.assert_allclose(paddle.norm(x.grad).numpy(), 8 * np.linalg.norm(VALUE), rtol=1e-5)
    x.grad = paddle.ones([4, 3, 5])
    assert x.grad.numpy().sum() == 60
    x.clear_grad()
    assert x.grad is None


def test_hooks_change_gradients() -> None:
    x = paddle.to_tensor(VALUE, stop_gradient=False)
    y = x * 2
    seen = []
    y.register_hook(lambda gradient: seen.append(gradient.numpy()))
    handle = x.register_hook(lambda gradient: gradient * 10)
    y.sum().backward()
    assert seen[0].tolist() == np.ones_like(VALUE).tolist()
    assert x.grad.numpy().max() == 20
    handle.remove()
    x.clear_grad()
    (x * 2).sum().backward()
    assert x.grad.numpy().max() == 2
    with pytest.raises(RuntimeError, match="stop gradient"):
        paddle.to_tensor([1.0]).register_hook(print)
