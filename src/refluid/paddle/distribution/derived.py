"""Distributions made of others: mapped ones, and those of which several are taken as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.paddle.distribution.base import Distribution, Shape, sum_last
from refluid.paddle.distribution.composed import ChainTransform
from refluid.paddle.distribution.transform import Transform


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_rank` dimensions are of one sample."""

    def __init__(self, base: Distribution, reinterpreted_batch_rank: int) -> None:
        rank = reinterpreted_batch_rank
        if not 0 < rank <= len(base.batch_shape):
            raise ValueError(
                f"Expected 0 < reinterpreted_batch_rank <= {len(base.batch_shape)}, but got {rank}"
            )
        self._base, self._rank = base, rank
        kept = len(base.batch_shape) - rank
        shape = base.batch_shape + base.event_shape
        super().__init__(shape[:kept], shape[kept:])

    @property
    def mean(self) -> Any:
        """The base's."""
        return self._base.mean

    @property
    def variance(self) -> Any:
        """The base's."""
        return self._base.variance

    def sample(self, shape: Any = ()) -> Any:
        """The base's."""
        return self._base.sample(shape)

    def rsample(self, shape: Shape = ()) -> Any:
        """The base's."""
        return self._base.rsample(shape)

    def log_prob(self, value: Any, /) -> Any:
        """The sum over the dimensions that belong together."""
        return sum_last(self._base.log_prob(value), self._rank)

    def entropy(self) -> Any:
        """The sum over the dimensions that belong together."""
        return sum_last(self._base.entropy(), self._rank)


class TransformedDistribution(Distribution):
    """What maps make of a distribution's samples."""

    def __init__(self, base: Distribution, transforms: Sequence[Transform]) -> None:
        self._base, self._transforms = base, list(transforms)
        chain = ChainTransform(self._transforms)
        shape = chain.forward_shape(base.batch_shape + base.event_shape)
        grown = max(len(base.event_shape), chain.in_rank) + chain.out_rank - chain.in_rank
        kept = len(shape) - grown
        super().__init__(shape[:kept], shape[kept:])

    def sample(self, shape: Any = ()) -> Any:
        """The base's, mapped."""
        return self._mapped(self._base.sample(shape))

    def rsample(self, shape: Shape = ()) -> Any:
        """The base's, mapped."""
        return self._mapped(self._base.rsample(shape))

    def _mapped(self, value: Any) -> Any:
        for one in self._transforms:
            value = one.forward(value)
        return value

    def log_prob(self, value: Any, /) -> Any:
        """The base's of what becomes the value, less the growth of volumes."""
        total: Any = 0.0
        rank = len(self.event_shape)
        for one in reversed(self._transforms):
            before = one.inverse(value)
            rank += one.in_rank - one.out_rank
            grown = one.forward_log_det_jacobian(before)
            total, value = total - sum_last(grown, rank - one.in_rank), before
        own = self._base.log_prob(value)
        return total + sum_last(own, rank - len(self._base.event_shape))
