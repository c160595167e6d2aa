"""Linear algebra that Paddle 2 has beside Fluid's."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator("inverse", outputs="Output", uses="Input", amp="keep")
def inverse(Input: Tensor) -> Tensor:
    """The inverse of each matrix (..., n, n)."""
    out: Tensor = torch.linalg.inv(Input)
    return out


@operator("cholesky", outputs="Out", uses="X", amp="keep")
def cholesky(X: Tensor, *, upper: bool = False) -> Tensor:
    """The lower (or upper) triangle whose product with its transpose is X (..., n, n)."""
    out: Tensor = torch.linalg.cholesky(X, upper=upper)
    return out


@operator("determinant", outputs="Out", uses="Input", amp="keep")
def determinant(Input: Tensor) -> Tensor:
    """The determinant of each matrix (..., n, n)."""
    out: Tensor = torch.linalg.det(Input)
    return out if out.dim() else out.reshape(1)


@operator("solve", outputs="Out", uses="X Y", amp="keep")
def solve(X: Tensor, Y: Tensor) -> Tensor:
    """The solution of X · Out = Y, of matrices (..., n, n) and (..., n, k) or vectors (n,)."""
    out: Tensor = torch.linalg.solve(X, Y)
    return out


@operator("matrix_power", outputs="Out", uses="X", amp="keep")
def matrix_power(X: Tensor, *, n: int) -> Tensor:
    """Each matrix (..., m, m) to the power of the whole number n."""
    out: Tensor = torch.linalg.matrix_power(X, n)
    return out


@operator("einsum", outputs="Out", uses="Operands", amp="fast")
def einsum(Operands: list[Tensor], *, equation: str) -> Tensor:
    """Products summed as Einstein's convention says."""
    out = torch.einsum(equation, *Operands)
    return out if out.dim() else out.reshape(1)
