"""Maps of values, with the logarithm of what they do to volumes: what they share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.distribution.base import Distribution
from refluid.paddle.tensor import math

Shape = Sequence[int]
_COMPOSED = "refluid.paddle.distribution.composed"


class Transform:
    """Base of maps. A subclass says `_forward`, `_inverse` and `_volume` of what it can.

    in_rank, out_rank: how many last dimensions of a value belong together, before and after.
    """

    in_rank = 0
    out_rank = 0
    _forward: Callable[[Any], Any] | None = None
    _inverse: Callable[[Any], Any] | None = None
    _volume: Callable[[Any], Any] | None = None

    def _able(self, what: str) -> Callable[[Any], Any]:
        found: Callable[[Any], Any] | None = getattr(self, what)
        if found is None:
            raise NotImplementedError(f"{type(self).__name__} has no {what.strip('_')}")
        return found

    def __call__(self, input: Any) -> Any:
        """A distribution of what it maps, a chain with another map, or `forward`."""
        if isinstance(input, Distribution):
            made = importlib.import_module("refluid.paddle.distribution.derived")
            return made.TransformedDistribution(input, [self])
        if isinstance(input, Transform):
            return importlib.import_module(_COMPOSED).ChainTransform([self, input])
        return self.forward(input)

    def forward(self, x: Variable) -> Any:
        """What x becomes."""
        return self._able("_forward")(x)

    def inverse(self, y: Variable) -> Any:
        """What becomes y."""
        return self._able("_inverse")(y)

    def forward_log_det_jacobian(self, x: Variable) -> Any:
        """The logarithm of how much volumes grow at x. NotImplementedError where they don't."""
        return self._able("_volume")(x)

    def inverse_log_det_jacobian(self, y: Variable) -> Any:
        """The logarithm of how much volumes shrink back at y."""
        return math.neg(self.forward_log_det_jacobian(self.inverse(y)))

    def forward_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape of what a value of this shape becomes."""
        return tuple(shape)

    def inverse_shape(self, shape: Shape) -> tuple[int, ...]:
        """The shape of what becomes a value of this shape."""
        return tuple(shape)
