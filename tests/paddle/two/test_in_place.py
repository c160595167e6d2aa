"""Functions that overwrite their argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle_module
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import static
from refluid.paddle.nn import functional
from refluid.paddle.tensor import TENSOR
from refluid.paddle.tensor.creation import to_tensor
from tests.paddle.two.networks import fresh

paddle: Any = paddle_module
X = np.random.RandomState(1).uniform(0.2, 0.8, (3, 4)).astype("float32")
W = np.random.RandomState(2).uniform(1.2, 1.8, (3, 4)).astype("float32")
NAMES = [one for one in TENSOR.split() if one.endswith("_")]
DRAWN = {"normal_", "cauchy_", "geometric_"}
# What functions take beside X.
GIVEN: dict[str, Any] = {
    **dict.fromkeys(
        [
            "divide_",
            "multiply_",
            "pow_",
            "floor_divide_",
            "floor_mod_",
            "mod_",
            "remainder_",
            "equal_",
            "greater_equal_",
            "greater_than_",
            "less_equal_",
            "less_than_",
            "hypot_",
        ],
        lambda: (to_tensor(W),),
    ),
    "addmm_": lambda: (to_tensor(X[:, :3]), to_tensor(W)),
    "cast_": lambda: ("float64",),
    "cumprod_": lambda: (1,),
    "index_add_": lambda: (to_tensor([0, 2]), 0, to_tensor(W[:2])),
    "index_fill_": lambda: (to_tensor([0, 2]), 0, 5.0),
    "index_put_": lambda: ((to_tensor([0, 2]),), to_tensor(W[:2])),
    "ldexp_": lambda: (to_tensor(np.array([1, 2, 3, 4])),),
    "masked_fill_": lambda: (to_tensor(X > 0.5), 7.0),
    "multigammaln_": lambda: (1,),
    "polygamma_": lambda: (1,),
    "renorm_": lambda: (2.0, 0, 0.5),
    "reshape_": lambda: ([4, 3],),
    "scatter_": lambda: (to_tensor([1, 0]), to_tensor(W[:2])),
    "squeeze_": lambda: (),
    "transpose_": lambda: ([1, 0],),
    "unsqueeze_": lambda: (0,),
}
WHOLE = {"gcd_", "lcm_", "bitwise_and_", "bitwise_or_", "bitwise_xor_", "bitwise_not_"}
TRUTHS = {"logical_and_", "logical_or_", "logical_not_"}


def _start(name: str) -> Any:
    if name in WHOLE:
        return (X * 40).astype("int64")
    return X > 0.5 if name in TRUTHS else X


def _others(name: str) -> Any:
    if name in WHOLE | TRUTHS:
        return (
            ()
            if "not" in name
            else (to_tensor((W * 9).astype("int64") if name in WHOLE else W > 1.5),)
        )
    return GIVEN.get(name, tuple)()


@pytest.mark.parametrize("name", sorted({*NAMES} - DRAWN - {"where_"}))
def test_is_the_function_in_place(name: str) -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(_start(name))
        wanted = getattr(paddle, name.removesuffix("_"))(to_tensor(_start(name)), *_others(name))
        held = x.tensor
        found = getattr(paddle, name)(x, *_others(name))
        assert found is x
        np.testing.assert_array_equal(x.numpy(), wanted.numpy())
        if wanted.tensor.dtype == held.dtype and wanted.tensor.shape == held.shape:
            assert x.tensor is held
        again = to_tensor(_start(name))
        assert getattr(again, name)(*_others(name)) is again
        np.testing.assert_array_equal(again.numpy(), wanted.numpy())


def test_gradients_pass() -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(X, stop_gradient=False)
        y = x * 2.0
        y.exp_()
        y.multiply_(to_tensor(W))
        y.sum().backward()
        np.testing.assert_allclose(x.gradient(), 2 * np.exp(2 * X) * W, rtol=1e-5)
        with pytest.raises(ValueError, match="can't use inplace strategy"):
            x.exp_()
        y = functional.relu_(x * -1.0 + 0.5)
        functional.softmax_(y)
        assert y.stop_gradient is False


def test_where_overwrites_its_second() -> None:
    with mode.eager(CPUPlace()):
        x, y = to_tensor(X), to_tensor(W)
        assert paddle.where_(to_tensor(X > 0.5), x, y) is x
        np.testing.assert_array_equal(x.numpy(), np.where(X > 0.5, X, W))


def test_random_numbers() -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(np.zeros((200, 300), "float32"))
        assert abs(float(paddle.normal_(x, 2.0, 3.0).numpy().std()) - 3) < 0.1
        assert paddle.geometric_(x, 0.5).numpy().min() == 1
        assert abs(np.median(paddle.cauchy_(x, 4.0).numpy()) - 4) < 0.1
        assert x.uniform_(2.0, 3.0).numpy().min() >= 2
        assert x.zero_().numpy().any() == np.False_
        assert x.fill_(2.5).numpy().mean() == 2.5


def test_strides() -> None:
    with mode.eager(CPUPlace()):
        x = to_tensor(X, stop_gradient=False)
        made = paddle.as_strided(x, [3, 2], [4, 2], 1)
        np.testing.assert_array_equal(made.numpy(), X[:, 1::2])
        windows = paddle.unfold(x, 1, 3, 1)
        (made.sum() + windows.sum()).backward()
        np.testing.assert_array_equal(x.gradient(), [[1, 3, 2, 2]] * 3)


def test_in_programs_nothing_is_overwritten() -> None:
    with fresh() as (main, _):
        x = static.data("x", [3, 4])
        made = paddle.square_(x)
        assert made is not x
        found = static.Executor("cpu").run(main, {"x": X}, [made, x])
    np.testing.assert_allclose(found[0], X**2, rtol=1e-6)
    np.testing.assert_array_equal(found[1], X)
    assert not hasattr(x, "no_such_")
