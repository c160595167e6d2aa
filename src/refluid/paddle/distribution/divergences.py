"""`kl_divergence`: by the classes of both distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.paddle.distribution.base import Distribution
from refluid.paddle.distribution.bounded import Beta, Dirichlet, Uniform
from refluid.paddle.distribution.discrete import Bernoulli, Categorical, Geometric
from refluid.paddle.distribution.unbounded import Cauchy, Laplace, LogNormal, Normal
from refluid.paddle.tensor import math, reduction

Divergence = Callable[[Any, Any], Any]
_known: dict[tuple[type, type], Divergence] = {}


def register_kl(cls_p: type, cls_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function gives the divergence from one class to another."""
    for one in (cls_p, cls_q):
        if not issubclass(one, Distribution):
            raise TypeError("cls_p and cls_q must be subclass of Distribution")

    def keep(function: Divergence) -> Divergence:
        _known[cls_p, cls_q] = function
        return function

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The divergence of Kullback and Leibler. NotImplementedError for unknown classes."""
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            found = _known.get((first, second))
            if found is not None:
                return found(p, q)
    raise NotImplementedError(
        f"no divergence from {type(p).__name__} to {type(q).__name__} is known; give one by "
        "paddle.distribution.register_kl"
    )


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def _normal(p: Any, q: Any) -> Any:
    ratio = math.square(p.scale / q.scale)
    return (ratio + math.square((p.loc - q.loc) / q.scale) - 1.0 - math.log(ratio)) * 0.5


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    return math.log((q.high - q.low) / (p.high - p.low))


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    far = math.abs(p.loc - q.loc)
    ratio = (p.scale * math.exp(-far / p.scale) + far) / q.scale
    return ratio + math.log(q.scale / p.scale) - 1.0


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    both = math.square(p.scale + q.scale) + math.square(p.loc - q.loc)
    return math.log(both / (p.scale * q.scale * 4.0))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    (one, none), (other, others) = p._logits(), q._logits()
    return p.probs * (one - other) + (1.0 - p.probs) * (none - others)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    rest = (1.0 - p.probs) / p.probs
    return math.log(p.probs / q.probs) + rest * math.log((1.0 - p.probs) / (1.0 - q.probs))


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return p.kl_divergence(q)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    total = p.alpha + p.beta
    first = (p.alpha - q.alpha) * math.digamma(p.alpha)
    second = (p.beta - q.beta) * math.digamma(p.beta)
    both = (q.alpha + q.beta - total) * math.digamma(total)
    return q.log_normalizer() - p.log_normalizer() + first + second + both


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    own, other = p.concentration, q.concentration
    total = reduction.sum(own, -1, None, True)
    each = (own - other) * (math.digamma(own) - math.digamma(total))
    return q.log_normalizer() - p.log_normalizer() + reduction.sum(each, -1)
