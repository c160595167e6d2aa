"""Distributions over all numbers, or all positive ones."""

from __future__ import annotations

import math as numbers
from typing import Any

from refluid.paddle.distribution.base import Distribution, Shape, together
from refluid.paddle.tensor import math
from refluid.paddle.tensor.random import standard_normal, uniform

_EULER = 0.57721566490153286060
_TINY = 1.2e-38


class _Located(Distribution):
    """A distribution of a place and a width."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = together(loc, scale)
        super().__init__(tuple(self.loc.shape))

    def _standard(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    def _uniform(self, shape: Shape) -> Any:
        return uniform(self._extended(shape), "float32", _TINY, 1.0)


class Normal(_Located):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        super().__init__(loc, scale)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return math.square(self.scale)

    def sample(self, shape: Shape = (), seed: int = 0) -> Any:
        return super().sample(shape)

    def rsample(self, shape: Shape = ()) -> Any:
        return self.loc + standard_normal(self._extended(shape)) * self.scale

    def entropy(self) -> Any:
        return math.log(self.scale) + (0.5 + 0.5 * numbers.log(2 * numbers.pi))

    def log_prob(self, value: Any) -> Any:
        squares = math.square(self._standard(value)) * -0.5
        return squares - math.log(self.scale) - 0.5 * numbers.log(2 * numbers.pi)


class LogNormal(_Located):
    """What has a normal logarithm of mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale)
        self._base = Normal(loc, scale)

    @property
    def mean(self) -> Any:
        return math.exp(self.loc + math.square(self.scale) * 0.5)

    @property
    def variance(self) -> Any:
        square = math.square(self.scale)
        return math.expm1(square) * math.exp(self.loc * 2.0 + square)

    def sample(self, shape: Shape = ()) -> Any:
        return math.exp(self._base.sample(shape))

    def rsample(self, shape: Shape = ()) -> Any:
        return math.exp(self._base.rsample(shape))

    def entropy(self) -> Any:
        return self._base.entropy() + self.loc

    def log_prob(self, value: Any) -> Any:
        logarithm = math.log(value)
        return self._base.log_prob(logarithm) - logarithm


class Laplace(_Located):
    """The distribution of Laplace around `loc`."""

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return math.square(self.scale) * 2.0

    @property
    def stddev(self) -> Any:
        return self.scale * numbers.sqrt(2)

    def rsample(self, shape: Shape = ()) -> Any:
        return self.icdf(self._uniform(shape))

    def entropy(self) -> Any:
        return math.log(self.scale * 2.0) + 1.0

    def log_prob(self, value: Any) -> Any:
        return -math.abs(self._standard(value)) - math.log(self.scale * 2.0)

    def cdf(self, value: Any) -> Any:
        """The probability of values below."""
        standard = self._standard(value)
        return 0.5 - math.sign(standard) * math.expm1(-math.abs(standard)) * 0.5

    def icdf(self, value: Any) -> Any:
        """The number below which values are with this probability."""
        term = value - 0.5
        return self.loc - self.scale * math.sign(term) * math.log1p(math.abs(term) * -2.0)


class Gumbel(_Located):
    """The distribution of Gumbel, of greatest values."""

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Any:
        return math.square(self.scale) * (numbers.pi**2 / 6)

    def rsample(self, shape: Shape = ()) -> Any:
        return self.loc - self.scale * math.log(-math.log(self._uniform(shape)))

    def entropy(self) -> Any:
        return math.log(self.scale) + (1 + _EULER)

    def log_prob(self, value: Any) -> Any:
        standard = self._standard(value)
        return -(standard + math.exp(-standard)) - math.log(self.scale)

    def cdf(self, value: Any) -> Any:
        """The probability of values below."""
        return math.exp(-math.exp(-self._standard(value)))


class Cauchy(_Located):
    """The distribution of Cauchy, which has no mean."""

    def __init__(self, loc: Any, scale: Any, name: str | None = None) -> None:
        super().__init__(loc, scale)

    def sample(self, shape: Any = (), name: str | None = None) -> Any:
        return super().sample(shape)

    def rsample(self, shape: Any = (), name: str | None = None) -> Any:
        return self.loc + math.tan((self._uniform(shape) - 0.5) * numbers.pi) * self.scale

    def entropy(self) -> Any:
        return math.log(self.scale) + numbers.log(4 * numbers.pi)

    def log_prob(self, value: Any) -> Any:
        square = math.log1p(math.square(self._standard(value)))
        return -(square + math.log(self.scale)) - numbers.log(numbers.pi)

    def cdf(self, value: Any) -> Any:
        """The probability of values below."""
        return math.atan(self._standard(value)) * (1 / numbers.pi) + 0.5
