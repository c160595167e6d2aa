"""Maps of numbers, and of the last dimension as a whole."""

from __future__ import annotations

import math as numbers
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.distribution.transform import Shape, Transform
from refluid.paddle.nn.functional import activation, shapes
from refluid.paddle.tensor import creation, math, reduction


class AbsTransform(Transform):
    """|x|: both of two values, so that `inverse` gives a pair."""

    def _forward(self, x: Any) -> Any:
        return math.abs(x)

    def _inverse(self, y: Any) -> Any:
        return math.neg(y), y

    def inverse_log_det_jacobian(self, y: Variable) -> Any:
        """Zeros, for both."""
        zero = creation.zeros([1], y.dtype)
        return zero, zero


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc: Variable, scale: Variable) -> None:
        self._loc, self._scale = loc, scale

    @property
    def loc(self) -> Variable:
        """What is added."""
        return self._loc

    @property
    def scale(self) -> Variable:
        """What multiplies."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        return self._loc + self._scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self._loc) / self._scale

    def _volume(self, _x: Any) -> Any:
        return math.log(math.abs(self._scale))


class ExpTransform(Transform):
    """e^x."""

    def _forward(self, x: Any) -> Any:
        return math.exp(x)

    def _inverse(self, y: Any) -> Any:
        return math.log(y)

    def _volume(self, x: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x^power, of positive numbers."""

    def __init__(self, power: Variable) -> None:
        self._power = power

    @property
    def power(self) -> Variable:
        """The exponent."""
        return self._power

    def _forward(self, x: Any) -> Any:
        return math.pow(x, self._power)

    def _inverse(self, y: Any) -> Any:
        return math.pow(y, 1.0 / self._power)

    def _volume(self, x: Any) -> Any:
        return math.log(math.abs(self._power * math.pow(x, self._power - 1.0)))


class SigmoidTransform(Transform):
    """1 / (1 + e^-x)."""

    def _forward(self, x: Any) -> Any:
        return math.sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        return math.log(y) - math.log1p(math.neg(y))

    def _volume(self, x: Any) -> Any:
        return math.neg(activation.softplus(math.neg(x)) + activation.softplus(x))


class TanhTransform(Transform):
    """tanh(x)."""

    def _forward(self, x: Any) -> Any:
        return math.tanh(x)

    def _inverse(self, y: Any) -> Any:
        return math.atanh(y)

    def _volume(self, x: Any) -> Any:
        return 2.0 * (numbers.log(2.0) - x - activation.softplus(-2.0 * x))


class SoftmaxTransform(Transform):
    """The softmax along the last dimension, which loses a constant."""

    in_rank = out_rank = 1

    def _forward(self, x: Any) -> Any:
        return activation.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return math.log(y)


class StickBreakingTransform(Transform):
    """n numbers as n + 1 parts of one: each the sigmoid's share of what is left."""

    in_rank = out_rank = 1

    def _left(self, count: int) -> Variable:
        return creation.arange(count, 0, -1, dtype="float32")

    def _forward(self, x: Any) -> Any:
        share = math.sigmoid(x - math.log(self._left(x.shape[-1])))
        rest = reduction.cumprod(1.0 - share, -1)
        around = [0, 0] * (len(x.shape) - 1)
        last = shapes.pad(share, [*around, 0, 1], value=1.0)
        return last * shapes.pad(rest, [*around, 1, 0], value=1.0)

    def _inverse(self, y: Any) -> Any:
        parts = y[..., :-1]
        rest = 1.0 - reduction.cumsum(parts, -1)
        return math.log(parts / rest) + math.log(self._left(y.shape[-1] - 1))

    def _volume(self, x: Any) -> Any:
        moved = x - math.log(self._left(x.shape[-1]))
        share = math.log(self._forward(x)[..., :-1])
        return reduction.sum(activation.log_sigmoid(moved) - moved + share, -1)

    def forward_shape(self, shape: Shape) -> tuple[int, ...]:
        """One more in the last dimension."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> tuple[int, ...]:
        """One less in the last dimension."""
        return (*shape[:-1], shape[-1] - 1)
