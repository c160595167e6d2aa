"""Distributions over whole numbers."""

from __future__ import annotations

import math as numbers
from typing import Any

from refluid.paddle.distribution.base import Distribution, ExponentialFamily, Shape
from refluid.paddle.nn.functional.activation import softmax
from refluid.paddle.nn.functional.shapes import one_hot
from refluid.paddle.tensor import manipulation, math, random, reduction
from refluid.paddle.tensor.making import as_variable, cast_to
from refluid.paddle.tensor.search import take_along_axis

_SMALLEST = 1.1920929e-07


class Bernoulli(ExponentialFamily):
    """1 with a probability, else 0."""

    def __init__(self, probs: Any, name: str | None = None) -> None:
        self.probs = as_variable(probs)
        super().__init__(tuple(self.probs.shape))

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1.0 - self.probs)

    def _logits(self) -> tuple[Any, Any]:
        kept = math.clip(self.probs, _SMALLEST, 1 - _SMALLEST)
        return math.log(kept), math.log1p(-kept)

    def sample(self, shape: Shape = ()) -> Any:
        whole = manipulation.broadcast_to(self.probs, self._extended(shape))
        return random.bernoulli(whole)

    def rsample(self, shape: Shape = (), temperature: float = 1.0) -> Any:
        """Smooth samples between 0 and 1, the sharper the smaller `temperature`."""
        u = random.uniform(self._extended(shape), "float32", _SMALLEST, 1 - _SMALLEST)
        one, none = self._logits()
        noise = math.log(u) - math.log1p(-u)
        return math.scale(one - none + noise, 1.0 / temperature)

    def entropy(self) -> Any:
        one, none = self._logits()
        return -(self.probs * one + (1.0 - self.probs) * none)

    def log_prob(self, value: Any) -> Any:
        one, none = self._logits()
        return value * one + (1.0 - value) * none

    def cdf(self, value: Any) -> Any:
        """The probability of values that aren't greater."""
        first = cast_to(value >= 0.0, self.probs.dtype)
        last = cast_to(value >= 1.0, self.probs.dtype)
        return first * (1.0 - self.probs) + last * self.probs


class Geometric(Distribution):
    """How often one tries in vain before something of this probability happens."""

    def __init__(self, probs: Any) -> None:
        self.probs = as_variable(probs)
        super().__init__(tuple(self.probs.shape))

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def pmf(self, k: Any) -> Any:
        """The probability of `k` tries in vain."""
        return math.exp(self.log_pmf(k))

    def log_pmf(self, k: Any) -> Any:
        """The logarithm of that."""
        return math.log1p(-self.probs) * k + math.log(self.probs)

    def log_prob(self, value: Any) -> Any:
        return self.log_pmf(value)

    def rsample(self, shape: Shape = ()) -> Any:
        u = random.uniform(self._extended(shape), "float32", _SMALLEST, 1.0)
        return math.floor(math.log(u) / math.log1p(-self.probs))

    def entropy(self) -> Any:
        rest = 1.0 - self.probs
        return -(rest * math.log(rest) + self.probs * math.log(self.probs)) / self.probs

    def cdf(self, k: Any) -> Any:
        """The probability of at most `k` tries in vain."""
        return 1.0 - math.pow(1.0 - self.probs, k + 1.0)


class Categorical(Distribution):
    """One of several classes. logits: as much as in proportion, (.., classes).

    Probabilities are shares of `logits`, but entropy and divergence are those of their softmax,
    as in Paddle.
    """

    def __init__(self, logits: Any, name: str | None = None) -> None:
        self.logits = as_variable(logits)
        super().__init__(tuple(self.logits.shape)[:-1])
        self._shares = self.logits / reduction.sum(self.logits, -1, None, True)

    def sample(self, shape: Any) -> Any:  # type: ignore[override]
        count = numbers.prod(int(one) for one in shape)
        drawn = random.multinomial(self._shares, count, True)
        if len(self.logits.shape) > 1:
            drawn = manipulation.transpose(
                drawn, [len(drawn.shape) - 1, *range(len(drawn.shape) - 1)]
            )
        return manipulation.reshape(drawn, [*shape, *self.batch_shape])

    def softmax(self) -> Any:
        """What entropy and divergence are of."""
        return softmax(self.logits)

    def entropy(self) -> Any:
        shares = self.softmax()
        return -reduction.sum(shares * math.log(shares), -1)

    def kl_divergence(self, other: Distribution) -> Any:
        first, second = self.softmax(), other.softmax()
        terms = first * (math.log(first) - math.log(second))
        return reduction.sum(terms, -1, None, True)

    def probs(self, value: Any) -> Any:
        """The probabilities of classes; of a list of them for each distribution."""
        shares = self._shares
        if len(shares.shape) == 1:
            return take_along_axis(shares, manipulation.reshape(value, [-1]), 0)
        if len(value.shape) == 1:
            value = manipulation.broadcast_to(value, [*self.batch_shape, int(value.shape[0])])
        return take_along_axis(shares, value, -1)

    def prob(self, value: Any) -> Any:
        """As `probs`."""
        return self.probs(value)

    def log_prob(self, value: Any) -> Any:
        return math.log(self.probs(value))


class Multinomial(Distribution):
    """How often each of several classes comes in `total_count` draws."""

    def __init__(self, total_count: int, probs: Any) -> None:
        if not isinstance(total_count, int) or total_count < 1:
            raise ValueError("input parameter total_count must be int type and grater than zero.")
        given = as_variable(probs)
        if len(given.shape) < 1:
            raise ValueError("probs parameter should not be none and over one dimension")
        self.total_count = total_count
        self.probs = given / reduction.sum(given, -1, None, True)
        super().__init__(tuple(given.shape)[:-1], tuple(given.shape)[-1:])

    @property
    def mean(self) -> Any:
        return math.scale(self.probs, float(self.total_count))

    @property
    def variance(self) -> Any:
        return self.mean * (1.0 - self.probs)

    def sample(self, shape: Shape = ()) -> Any:
        count = numbers.prod(int(one) for one in shape)
        classes = self.event_shape[0]
        rows = manipulation.reshape(self.probs, [-1, classes])
        drawn = random.multinomial(rows, count * self.total_count, True)
        each = manipulation.reshape(one_hot(drawn, classes), [-1, count, self.total_count, classes])
        totals = manipulation.transpose(reduction.sum(each, 2), [1, 0, 2])
        return manipulation.reshape(totals, self._extended(shape))

    def log_prob(self, value: Any) -> Any:
        total = math.lgamma(reduction.sum(value, -1) + 1.0)
        ways = total - reduction.sum(math.lgamma(value + 1.0), -1)
        return ways + reduction.sum(value * math.log(self.probs), -1)

    def entropy(self) -> Any:
        n, shares = self.total_count, self.probs
        own = -reduction.sum(shares * math.log(shares), -1)
        found = own * float(n) - numbers.lgamma(n + 1)
        for k in range(1, n + 1):
            log_share = math.log(shares) * float(k)
            rest = math.log1p(-shares) * float(n - k)
            ways = numbers.lgamma(n + 1) - numbers.lgamma(k + 1) - numbers.lgamma(n - k + 1)
            chance = math.exp(log_share + rest + ways)
            found = found + reduction.sum(chance, -1) * numbers.lgamma(k + 1)
        return found
