"""Random numbers whose distribution is a variable."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.signature import Random


@operator("bernoulli", outputs="Out", uses=None)
def bernoulli(X: Tensor, *, random: Random) -> Tensor:
    """1 with the probability X, else 0."""
    if X.is_meta:
        return torch.empty_like(X)
    return torch.bernoulli(X, generator=random(0))


@operator("poisson", outputs="Out", uses=None)
def poisson(X: Tensor, *, random: Random) -> Tensor:
    """Numbers of Poisson distributions with the rates X."""
    if X.is_meta:
        return torch.empty_like(X)
    return torch.poisson(X, generator=random(0))


@operator("multinomial", outputs="Out", uses=None, lod="")
def multinomial(
    X: Tensor, *, num_samples: int = 1, replacement: bool = False, random: Random
) -> Tensor:
    """Positions drawn with probabilities in proportion to X (..., categories), int64."""
    if X.is_meta:
        return X.new_empty((*X.shape[:-1], num_samples), dtype=torch.int64)
    return torch.multinomial(X, num_samples, replacement, generator=random(0))
