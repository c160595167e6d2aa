"""Distributions whose samples, entropies and probabilities are operators of the program.

Parameters are numbers, lists, arrays, or variables (then all of them), and broadcast.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.fluid.functions.math.comparison import less_than
from refluid.fluid.functions.math.elementwise import (
    elementwise_add,
    elementwise_mul,
    elementwise_pow,
)
from refluid.fluid.functions.math.linear import matmul
from refluid.fluid.functions.math.reduction import reduce_max, reduce_prod, reduce_sum
from refluid.fluid.functions.math.unary import exp
from refluid.fluid.functions.nn.activation import log
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.creation import (
    create_tensor,
    diag,
    fill_constant_batch_size_like,
    ones,
    zeros,
)
from refluid.fluid.functions.tensor.random import (
    gaussian_random,
    uniform_random,
    uniform_random_batch_size_like,
)
from refluid.fluid.functions.tensor.shaping import reshape, shape
from refluid.ir.variable import Variable

__all__ = ["Categorical", "MultivariateNormalDiag", "Normal", "Uniform"]

Numbers = float | int | Sequence[Any] | np.ndarray[Any, Any] | Variable
_FLOATS = ("float32", "float64")


def _array(value: Numbers) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    array = array.reshape(1) if array.ndim == 0 else array
    if array.dtype.name not in _FLOATS or isinstance(value, float | int | list | tuple):
        if isinstance(value, np.ndarray):
            warnings.warn(
                f"a distribution takes float32, so {array.dtype} becomes it", stacklevel=4
            )
        array = array.astype("float32")
    return array


def _variables(*values: Numbers) -> list[Variable]:
    """The parameters as variables of one shape. ValueError where only some are variables."""
    given = [isinstance(value, Variable) for value in values]
    if all(given):
        return [value for value in values if isinstance(value, Variable)]
    if any(given):
        raise ValueError("if one parameter of a distribution is a Variable, all must be")
    made = []
    for array in np.broadcast_arrays(*[_array(value) for value in values]):
        var = create_tensor(dtype=array.dtype)
        assign(np.ascontiguousarray(array), var)
        made.append(var)
    return made


def _of(result: Any) -> Variable:
    """What Python's operators made of variables, which is one."""
    made: Variable = result
    return made


class Distribution:
    """What distributions have in common."""

    def sample(self, *args: Any, **kwargs: Any) -> Variable:
        """Draws of a shape followed by the parameters' shape."""
        raise NotImplementedError

    def entropy(self) -> Variable:
        """The entropy, in nats."""
        raise NotImplementedError

    def kl_divergence(self, other: Any) -> Variable:
        """The divergence of this distribution from `other`, of the same class."""
        raise NotImplementedError

    def log_prob(self, value: Variable) -> Variable:
        """The logarithm of the density at `value`."""
        raise NotImplementedError


class Uniform(Distribution):
    """Uniform over [low, high)."""

    def __init__(self, low: Numbers, high: Numbers) -> None:
        self.all_arg_is_float = isinstance(low, float) and isinstance(high, float)
        self.low, self.high = _variables(low, high)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Draws; as in Fluid 1.8 they reach from low - (high - low) to high."""
        batch = list((self.low + self.high).shape)
        wanted = list(shape) + batch
        if -1 in batch:
            like = fill_constant_batch_size_like(
                self.low + self.high, batch + list(shape), self.low.dtype, 0.0
            )
            drawn = uniform_random_batch_size_like(
                like, like.shape, dtype=self.low.dtype, min=0.0, max=1.0, seed=seed
            )
            spread = elementwise_add(reshape(like, wanted), self.high - self.low)
            return elementwise_add(elementwise_mul(reshape(drawn, wanted), spread), self.low)
        drawn = uniform_random(wanted, seed=seed)
        out = drawn * (zeros(wanted, self.low.dtype) + (self.high - self.low)) + self.low
        return reshape(out, shape) if self.all_arg_is_float else out

    def log_prob(self, value: Variable) -> Variable:
        """-log(high - low) inside, minus infinity outside."""
        above, below = less_than(self.low, value), less_than(value, self.high)
        inside = cast(above, dtype=value.dtype), cast(below, dtype=value.dtype)
        return _of(log(inside[0] * inside[1]) - log(self.high - self.low))

    def entropy(self) -> Variable:
        """log(high - low)."""
        return log(self.high - self.low)


class Normal(Distribution):
    """Normal of mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Numbers, scale: Numbers) -> None:
        self.all_arg_is_float = isinstance(loc, float) and isinstance(scale, float)
        self.loc, self.scale = _variables(loc, scale)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Draws of shape `shape` followed by the parameters' shape."""
        batch = list((self.loc + self.scale).shape)
        wanted = list(shape) + batch
        if -1 in batch:
            return self._sample_like(batch, list(shape), seed)
        drawn = gaussian_random(wanted, mean=0.0, std=1.0, seed=seed)
        out = drawn * (zeros(wanted, self.loc.dtype) + self.scale) + self.loc
        return reshape(out, shape) if self.all_arg_is_float else out

    def _sample_like(self, batch: list[int], first: list[int], seed: int) -> Variable:
        """Draws for a batch whose size only the run knows."""
        like = fill_constant_batch_size_like(
            self.loc + self.scale, batch + first, self.loc.dtype, 0.0
        )
        empty = reshape(like, first + batch)
        drawn = gaussian_random(shape(empty), mean=0.0, std=1.0, seed=seed)
        # Python's `+` would begin at dimension 0 with what has an unknown size there.
        spread = elementwise_add(empty, self.scale)
        return elementwise_add(elementwise_mul(spread, drawn), self.loc)

    def entropy(self) -> Variable:
        """0.5 + 0.5 * log(2 * pi) + log(scale)."""
        batch = list((self.loc + self.scale).shape)
        zero = fill_constant_batch_size_like(self.loc + self.scale, batch, self.loc.dtype, 0.0)
        return _of(0.5 + 0.5 * math.log(2 * math.pi) + log(self.scale + zero))

    def log_prob(self, value: Variable) -> Variable:
        """-(value - loc)² / (2 * scale²) - log(scale) - log(sqrt(2 * pi))."""
        variance, log_scale = self.scale * self.scale, log(self.scale)
        square = (value - self.loc) * (value - self.loc)
        share = -1.0 * square / (2.0 * variance)
        return _of(share - log_scale - math.log(math.sqrt(2.0 * math.pi)))

    def kl_divergence(self, other: Normal) -> Variable:
        """0.5 * (r + d² - 1 - log(r)), r the ratio of variances, d the distance in deviations."""
        ratio = self.scale / other.scale
        ratio = ratio * ratio
        apart = (self.loc - other.loc) / other.scale
        apart = apart * apart
        return _of(0.5 * (ratio + apart - 1.0 - log(ratio)))


class Categorical(Distribution):
    """Over the classes in the last dimension of `logits`, the logarithms of their weights."""

    def __init__(self, logits: Numbers) -> None:
        (self.logits,) = _variables(logits)

    def _shifted(self) -> Variable:
        return _of(self.logits - reduce_max(self.logits, dim=-1, keep_dim=True))

    def entropy(self) -> Variable:
        """-sum(p * log(p)), keeping the dimension."""
        logits = self._shifted()
        weights = exp(logits)
        total = reduce_sum(weights, dim=-1, keep_dim=True)
        share = weights / total
        return _of(-1.0 * reduce_sum(share * (logits - log(total)), dim=-1, keep_dim=True))

    def kl_divergence(self, other: Categorical) -> Variable:
        """sum(p * (log(p) - log(q))), keeping the dimension."""
        logits, others = self._shifted(), other._shifted()
        weights, other_weights = exp(logits), exp(others)
        total = reduce_sum(weights, dim=-1, keep_dim=True)
        other_total = reduce_sum(other_weights, dim=-1, keep_dim=True)
        share = weights / total
        gap = logits - log(total) - others + log(other_total)
        return reduce_sum(share * gap, dim=-1, keep_dim=True)


class MultivariateNormalDiag(Distribution):
    """Normal of mean `loc`, (D,), and the diagonal covariance matrix `scale`, (D, D)."""

    def __init__(self, loc: Numbers, scale: Numbers) -> None:
        if isinstance(loc, Variable) != isinstance(scale, Variable):
            raise ValueError("if one parameter of a distribution is a Variable, all must be")
        (self.loc,), (self.scale,) = _variables(loc), _variables(scale)

    def _ones(self, matrix: Variable) -> tuple[Variable, Variable]:
        """A matrix of ones, and one with ones on the diagonal."""
        sizes = list(matrix.shape)
        everywhere = ones(sizes, self.loc.dtype)
        return everywhere, diag(ones([sizes[0]], self.loc.dtype))

    def _determinant(self, matrix: Variable) -> Variable:
        everywhere, diagonal = self._ones(matrix)
        return reduce_prod(matrix + everywhere - diagonal)

    def _inverse(self, matrix: Variable) -> Variable:
        everywhere, diagonal = self._ones(matrix)
        return elementwise_pow(matrix, everywhere - 2 * diagonal)

    def entropy(self) -> Variable:
        """0.5 * (D * (1 + log(2 * pi)) + log(det(scale)))."""
        size = self.scale.shape[0]
        constant = size * (1.0 + math.log(2 * math.pi))
        return _of(0.5 * (constant + log(self._determinant(self.scale))))

    def kl_divergence(self, other: MultivariateNormalDiag) -> Variable:
        """0.5 * (tr(S2⁻¹ S1) + d S2⁻¹ dᵀ - D + log(det(S2)) - log(det(S1)))."""
        trace = reduce_sum(self._inverse(other.scale) * self.scale)
        turned = matmul(other.loc - self.loc, self._inverse(other.scale))
        distance = matmul(turned, other.loc - self.loc)
        size = self.scale.shape[0]
        volumes = log(self._determinant(other.scale)) - log(self._determinant(self.scale))
        return _of(0.5 * (trace + distance - size + volumes))
