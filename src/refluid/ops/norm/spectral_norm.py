"""Spectral normalisation: a weight divided by its greatest singular value."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import at_least
from refluid.ops.bounded import Vector
from refluid.ops.registry import gradient, operator


@operator(
    "spectral_norm",
    gradient_lod="none",
    outputs="Out",
    uses="Weight U V",
    differentiable="Weight",
    amp="keep",
)
def spectral_norm(
    Weight: Tensor,
    U: Vector,
    V: Vector,
    *,
    dim: int = 0,
    power_iters: Annotated[int, at_least(0)] = 1,
    eps: float = 1e-12,
) -> Tensor:
    """Weight divided by its largest singular value, as a matrix whose rows are dimension `dim`.

    The value is u · W · v after `power_iters` rounds of v = Wᵀu / |Wᵀu|, u = Wv / |Wv|.
    """
    rows = Weight.movedim(dim, 0).flatten(1)
    if rows.shape != (U.numel(), V.numel()):
        raise EnforceNotMet(
            f"Weight {list(Weight.shape)} as a matrix is {list(rows.shape)}, which wants as many "
            f"elements in U and V; they have {U.numel()} and {V.numel()}"
        )
    u, v = _singular_vectors(rows, U, V, power_iters, eps)
    return Weight / torch.dot(u, rows.mv(v))


def _singular_vectors(
    rows: Tensor, U: Tensor, V: Tensor, power_iters: int, eps: float
) -> tuple[Tensor, Tensor]:
    u, v = U.reshape(-1), V.reshape(-1)
    for _ in range(power_iters):
        v = rows.t().mv(u)
        v = v / (v.norm() + eps)
        u = rows.mv(v)
        u = u / (u.norm() + eps)
    return u, v


@gradient("spectral_norm", once=True)
def spectral_norm_grad(
    Weight: Tensor,
    U: Tensor,
    V: Tensor,
    d_Out: Tensor,
    *,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 1e-12,
) -> Tensor:
    """d_Out * (1 - u vᵀ * sum(Weight) / sigma) / sigma.

    That is Fluid's gradient; the mathematical one has u vᵀ * sum(d_Out * Weight) / sigma instead.
    """
    rows, grad = Weight.movedim(dim, 0), d_Out.movedim(dim, 0).flatten(1)
    matrix = rows.flatten(1)
    u, v = _singular_vectors(matrix, U, V, power_iters, eps)
    sigma = torch.dot(u, matrix.mv(v))
    out = grad * (1.0 - torch.outer(u, v) * (matrix.sum() / sigma)) / sigma
    return out.reshape(rows.shape).movedim(0, dim)
