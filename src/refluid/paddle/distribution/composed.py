"""Maps of shapes, and maps made of others."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from typing import Any

from refluid.paddle.distribution.base import sum_last
from refluid.paddle.distribution.transform import Shape, Transform
from refluid.paddle.tensor import creation, manipulation
from refluid.paddle.tensor.making import as_variable


class ReshapeTransform(Transform):
    """The last dimensions in another shape of as many numbers."""

    def __init__(self, in_event_shape: Shape, out_event_shape: Shape) -> None:
        self._in, self._out = tuple(in_event_shape), tuple(out_event_shape)
        if numbers.prod(self._in) != numbers.prod(self._out):
            raise ValueError(f"shapes of different sizes: {self._in} and {self._out}")
        self.in_rank, self.out_rank = len(self._in), len(self._out)

    @property
    def in_event_shape(self) -> tuple[int, ...]:
        """The last dimensions before."""
        return self._in

    @property
    def out_event_shape(self) -> tuple[int, ...]:
        """The last dimensions after."""
        return self._out

    def _forward(self, x: Any) -> Any:
        return manipulation.reshape(x, list(self.forward_shape(x.shape)))

    def _inverse(self, y: Any) -> Any:
        return manipulation.reshape(y, list(self.inverse_shape(y.shape)))

    def _volume(self, x: Any) -> Any:
        return creation.zeros(list(x.shape[: len(x.shape) - self.in_rank]) or [1], x.dtype)

    def forward_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape after."""
        return _exchanged(shape, self._in, self._out)

    def inverse_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape before."""
        return _exchanged(shape, self._out, self._in)


def _exchanged(shape: Shape, own: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    kept = len(shape) - len(own)
    if kept < 0 or tuple(shape[kept:]) != own:
        raise ValueError(f"a value of shape {tuple(shape)} doesn't end with {own}")
    return (*shape[:kept], *other)


class IndependentTransform(Transform):
    """A map of values of which further dimensions belong together."""

    def __init__(self, base: Transform, reinterpreted_batch_rank: int) -> None:
        if reinterpreted_batch_rank <= 0:
            raise ValueError("reinterpreted_batch_rank must be positive")
        self._base, self._rank = base, reinterpreted_batch_rank
        self.in_rank = base.in_rank + self._rank
        self.out_rank = base.out_rank + self._rank
        self._forward, self._inverse = base.forward, base.inverse

    def _volume(self, x: Any) -> Any:
        return sum_last(self._base.forward_log_det_jacobian(x), self._rank)

    def forward_shape(self, shape: Shape) -> tuple[int, ...]:
        """The base's."""
        return self._base.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> tuple[int, ...]:
        """The base's."""
        return self._base.inverse_shape(shape)


class ChainTransform(Transform):
    """Maps after one another, the first one first."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms = list(transforms)
        rank = 0
        for one in reversed(self.transforms):
            rank = max(rank + one.in_rank - one.out_rank, one.in_rank)
        self.in_rank = rank
        self.out_rank = rank + sum(one.out_rank - one.in_rank for one in self.transforms)

    def _forward(self, x: Any) -> Any:
        for one in self.transforms:
            x = one.forward(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for one in reversed(self.transforms):
            y = one.inverse(y)
        return y

    def _volume(self, x: Any) -> Any:
        total: Any = 0.0
        rank = self.in_rank
        for one in self.transforms:
            total = total + sum_last(one.forward_log_det_jacobian(x), rank - one.in_rank)
            x = one.forward(x)
            rank += one.out_rank - one.in_rank
        return total

    def forward_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape after all."""
        for one in self.transforms:
            shape = one.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape before all."""
        for one in reversed(self.transforms):
            shape = one.inverse_shape(shape)
        return tuple(shape)


class StackTransform(Transform):
    """A map for each slice along `axis`."""

    def __init__(self, transforms: Sequence[Transform], axis: int = 0) -> None:
        self._transforms, self._axis = list(transforms), axis
        self.in_rank = max(one.in_rank for one in self._transforms)
        self.out_rank = max(one.out_rank for one in self._transforms)

    @property
    def transforms(self) -> list[Transform]:
        """The maps."""
        return self._transforms

    @property
    def axis(self) -> int:
        """The dimension of which each has a slice."""
        return self._axis

    def _each(self, value: Any, what: str) -> Any:
        parts = manipulation.unbind(as_variable(value), self._axis)
        pairs = zip(self._transforms, parts, strict=True)
        return manipulation.stack([getattr(one, what)(part) for one, part in pairs], self._axis)

    def _forward(self, x: Any) -> Any:
        return self._each(x, "forward")

    def _inverse(self, y: Any) -> Any:
        return self._each(y, "inverse")

    def _volume(self, x: Any) -> Any:
        return self._each(x, "forward_log_det_jacobian")
