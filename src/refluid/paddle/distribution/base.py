"""What distributions share: shapes, arguments, and what follows from the logarithm of a density."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.tensor import manipulation, math, reduction
from refluid.paddle.tensor.logic import broadcast_shape
from refluid.paddle.tensor.making import as_variable

Shape = Sequence[int]


def together(*given: Any) -> list[Variable]:
    """Arguments as variables of one shape."""
    found = [as_variable(float(one) if isinstance(one, int) else one) for one in given]
    shape = list(found[0].shape)
    for one in found[1:]:
        shape = broadcast_shape(shape, list(one.shape))
    return [
        one if list(one.shape) == shape else manipulation.broadcast_to(one, shape) for one in found
    ]


def sum_last(value: Any, rank: int) -> Any:
    """The sum over the last `rank` dimensions; the value itself for 0."""
    return reduction.sum(value, list(range(-rank, 0))) if rank > 0 else value


class Distribution:
    """Base of distributions.

    batch_shape: of the independent ones that it holds; event_shape: of a sample of each.
    """

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = ()) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of a sample of each."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean here")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance here")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def sample(self, shape: Any = ()) -> Any:
        """Samples that pass no gradient on."""
        made = self.rsample(shape).detach()
        made.stop_gradient = True
        return made

    def rsample(self, shape: Shape = ()) -> Any:
        """Samples by which gradients reach the distribution's numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no samples that pass gradients on")

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy here")

    def log_prob(self, value: Any, /) -> Any:
        """The logarithm of the density, or probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob here")

    def prob(self, value: Any) -> Any:
        """The density, or probability, of a value."""
        return math.exp(self.log_prob(value))

    # Probabilities where a distribution is made of them; else `prob`, as it was called before.
    probs: Any

    def __getattr__(self, name: str) -> Any:
        if name == "probs":
            return self.prob
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def kl_divergence(self, other: Distribution) -> Any:
        """The divergence of Kullback and Leibler from this to another."""
        known = importlib.import_module("refluid.paddle.distribution.divergences")
        return known.kl_divergence(self, other)

    def _extended(self, shape: Shape) -> list[int]:
        return [*map(int, shape), *self._batch_shape, *self._event_shape]


class ExponentialFamily(Distribution):
    """Base of distributions of the exponential family."""
