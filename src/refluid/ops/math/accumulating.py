"""What has come up to each element along a dimension: products, maxima, logarithms of sums."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.ops.registry import operator


@operator("cumprod", outputs="Out", uses="X")
def cumprod(X: Tensor, *, dim: int) -> Tensor:
    """Products of the elements up to each one."""
    return X.cumprod(dim)


@operator("logcumsumexp", outputs="Out", uses="X", amp="keep")
def logcumsumexp(X: Tensor, *, axis: int = -1) -> Tensor:
    """Logarithms of the sums of exp(X) up to each element."""
    return torch.logcumsumexp(X, axis)


@operator("cummax", outputs="Out Indices", uses="X", differentiable="X")
def cummax(X: Tensor, *, axis: int = -1, dtype: int = 3) -> tuple[Tensor, Tensor]:
    """The greatest element up to each one, and its position."""
    values, indices = torch.cummax(X, axis)
    return values, indices.to(to_torch(VarType(dtype)))


@operator("cummin", outputs="Out Indices", uses="X", differentiable="X")
def cummin(X: Tensor, *, axis: int = -1, dtype: int = 3) -> tuple[Tensor, Tensor]:
    """The smallest element up to each one, and its position."""
    values, indices = torch.cummin(X, axis)
    return values, indices.to(to_torch(VarType(dtype)))
