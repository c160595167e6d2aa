"""`paddle.autograd`: gradients written by hand, of several variables, and what is kept for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.core.errors import EnforceNotMet
from refluid.paddle.autograd import PyLayer, backward, saved_tensors_hooks

VALUE = np.random.RandomState(4).randn(3, 4).astype("float32")


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        yield
    finally:
        paddle.enable_static()


class Scaled(PyLayer):
    """x * y * factor and its sign; twice the gradient of x."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, y: Any = None) -> Any:
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        sign = paddle.sign(x)
        ctx.mark_non_differentiable(sign)
        return x * y * factor, sign, "text"

    @staticmethod
    def backward(ctx: Any, slope: Any, _sign: Any) -> Any:
        x, y = ctx.saved_tensor()
        return 2 * slope * y * ctx.factor, slope * x * ctx.factor


def _two() -> tuple[Any, Any]:
    made = [paddle.to_tensor(one) for one in (VALUE, VALUE[::-1].copy())]
    for one in made:
        one.stop_gradient = False
    return made[0], made[1]


def test_gradients_written_by_hand() -> None:
    x, y = _two()
    out, sign, text = Scaled.apply(x * 1, 3.0, y=y)
    assert text == "text" and sign.stop_gradient and not out.stop_gradient
    np.testing.assert_allclose(out.numpy(), VALUE * VALUE[::-1] * 3, rtol=1e-6)
    (out * out).sum().backward()
    slope = 2 * out.numpy()
    np.testing.assert_allclose(x.grad.numpy(), 2 * slope * y.numpy() * 3, rtol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), slope * VALUE * 3, rtol=1e-5)


def test_layers_train_by_them() -> None:
    class Straight(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return paddle.round(x)

        @staticmethod
        def backward(ctx: Any, slope: Any) -> Any:
            return slope

    net = paddle.nn.Linear(4, 4)
    sgd = paddle.optimizer.SGD(0.05, parameters=net.parameters())
    losses = []
    for _ in range(30):
        out = Straight.apply(net(paddle.to_tensor(VALUE)) * 4) / 4
        loss = ((out - 1.0) ** 2).mean()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]


def test_what_is_refused() -> None:
    class Short(Scaled):
        @staticmethod
        def backward(ctx: Any, slope: Any, _sign: Any) -> Any:
            return slope

    x, y = _two()
    with pytest.raises(EnforceNotMet, match=r"each of the 2 variables .* returned 1"):
        Short.apply(x, 1.0, y)[0].sum().backward()
    with pytest.raises(NotImplementedError, match="implement the forward"):
        PyLayer.apply(x)
    paddle.enable_static()
    with pytest.raises(
        NotImplementedError, match=r"Scaled\.apply runs where functions run at once"
    ):
        Scaled.apply(x, 1.0, y)


def test_a_result_that_nothing_reached() -> None:
    seen = []

    class Both(PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any, zeros: bool) -> Any:
            ctx.set_materialize_grads(zeros)
            return x + 1, x

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(second)
            return first

    for zeros in (True, False):
        x, _ = _two()
        Both.apply(x, zeros)[0].sum().backward()
        assert x.grad.numpy().tolist() == np.ones_like(VALUE).tolist()
    assert seen[0].numpy().sum() == 0 and seen[1] is None


def test_several_at_once() -> None:
    x, y = _two()
    first, second = x * 2, x * y
    backward([first, second], [paddle.full([3, 4], 5.0), None], retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 10 + y.numpy(), rtol=1e-6)
    backward(second)
    np.testing.assert_allclose(x.grad.numpy(), 10 + 2 * y.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="length of grad_tensors"):
        backward([first], [None, None])
    with pytest.raises(ValueError, match="duplicates"):
        backward([first, first])


def test_what_is_kept_goes_by_hooks() -> None:
    kept = []

    def pack(x: Any) -> Any:
        kept.append(x.shape)
        return x.numpy()

    x, y = _two()
    with saved_tensors_hooks(pack, paddle.to_tensor):
        z = paddle.multiply(x, y)
        out, _, _ = Scaled.apply(x, 1.0, y)
    assert kept == [[3, 4]] * 4
    (z + out).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * y.numpy(), rtol=1e-5)
