"""Distributions over bounded numbers."""

from __future__ import annotations

from typing import Any

import torch

from refluid.build import at_once
from refluid.eager import VarBase
from refluid.ir.at_once import only_at_once
from refluid.paddle.distribution.base import Distribution, ExponentialFamily, Shape, together
from refluid.paddle.tensor import math, reduction
from refluid.paddle.tensor.logic import less_than, logical_and
from refluid.paddle.tensor.making import as_variable, cast_to
from refluid.paddle.tensor.random import uniform


class Uniform(Distribution):
    """Numbers of [low, high) that are alike."""

    def __init__(self, low: Any, high: Any, name: str | None = None) -> None:
        self.low, self.high = together(low, high)
        super().__init__(tuple(self.low.shape))

    @property
    def mean(self) -> Any:
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Any:
        return math.square(self.high - self.low) * (1 / 12)

    def sample(self, shape: Shape = (), seed: int = 0) -> Any:
        return super().sample(shape)

    def rsample(self, shape: Shape = ()) -> Any:
        drawn = uniform(self._extended(shape), "float32", 0.0, 1.0)
        return self.low + drawn * (self.high - self.low)

    def entropy(self) -> Any:
        return math.log(self.high - self.low)

    def prob(self, value: Any) -> Any:
        inside = logical_and(less_than(self.low, value), less_than(value, self.high))
        return cast_to(inside, self.low.dtype) / (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        return math.log(self.prob(value))


def drawn_gamma(concentration: Any, shape: Shape) -> Any:
    """Samples of gamma distributions of width 1, which pass gradients on. At once only."""
    if not at_once():
        only_at_once("a sample of a beta or Dirichlet distribution")
    numbers = concentration.tensor
    made = torch.distributions.Gamma(numbers, torch.ones_like(numbers)).rsample(tuple(shape))
    return VarBase(made)


class Beta(ExponentialFamily):
    """The beta distribution of numbers between 0 and 1."""

    def __init__(self, alpha: Any, beta: Any) -> None:
        self.alpha, self.beta = together(alpha, beta)
        super().__init__(tuple(self.alpha.shape))

    @property
    def mean(self) -> Any:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (math.square(total) * (total + 1.0))

    def rsample(self, shape: Shape = ()) -> Any:
        first, second = (drawn_gamma(one, shape) for one in (self.alpha, self.beta))
        return first / (first + second)

    def log_normalizer(self) -> Any:
        """The logarithm of the beta function."""
        both = math.lgamma(self.alpha) + math.lgamma(self.beta)
        return both - math.lgamma(self.alpha + self.beta)

    def entropy(self) -> Any:
        total = self.alpha + self.beta
        first = (self.alpha - 1.0) * math.digamma(self.alpha)
        second = (self.beta - 1.0) * math.digamma(self.beta)
        return self.log_normalizer() - first - second + (total - 2.0) * math.digamma(total)

    def log_prob(self, value: Any) -> Any:
        first = (self.alpha - 1.0) * math.log(value)
        return first + (self.beta - 1.0) * math.log1p(-value) - self.log_normalizer()


class Dirichlet(ExponentialFamily):
    """The distribution of Dirichlet over shares, whose sum is 1."""

    def __init__(self, concentration: Any) -> None:
        self.concentration = as_variable(concentration)
        shape = tuple(self.concentration.shape)
        if not shape:
            raise ValueError("`concentration` parameter must be at least one dimensional")
        super().__init__(shape[:-1], shape[-1:])

    def _total(self) -> Any:
        return reduction.sum(self.concentration, -1, None, True)

    @property
    def mean(self) -> Any:
        return self.concentration / self._total()

    @property
    def variance(self) -> Any:
        total = self._total()
        return (
            self.concentration * (total - self.concentration) / (math.square(total) * (total + 1.0))
        )

    def rsample(self, shape: Shape = ()) -> Any:
        drawn = drawn_gamma(self.concentration, shape)
        return drawn / reduction.sum(drawn, -1, None, True)

    def log_normalizer(self) -> Any:
        """The logarithm of the beta function of several."""
        each = reduction.sum(math.lgamma(self.concentration), -1)
        return each - math.lgamma(reduction.sum(self.concentration, -1))

    def entropy(self) -> Any:
        total = reduction.sum(self.concentration, -1)
        count = float(self.concentration.shape[-1])
        each = reduction.sum((self.concentration - 1.0) * math.digamma(self.concentration), -1)
        return self.log_normalizer() + (total - count) * math.digamma(total) - each

    def log_prob(self, value: Any) -> Any:
        each = reduction.sum(math.log(value) * (self.concentration - 1.0), -1)
        return each - self.log_normalizer()
