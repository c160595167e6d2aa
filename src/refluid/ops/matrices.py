"""Diagonals, triangles and products of matrices, and picking by index."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import at_least
from refluid.ops.bounded import Images, Vector
from refluid.ops.registry import gradient, operator


@operator("trace", outputs="Out", uses="Input", lod="")
def trace(Input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The sum of the diagonal of the planes (dim1, dim2); shape (1,) for a matrix."""
    if dim1 % Input.dim() == dim2 % Input.dim():
        raise EnforceNotMet(f"The dimensions should not be identical, but are {dim1} and {dim2}")
    out = torch.diagonal(Input, offset, dim1, dim2).sum(-1)
    return out if out.dim() else out.reshape(1)


@operator("diag_embed", outputs="Out", uses=None, lod="")
def diag_embed(Input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as diagonals of the planes (dim1, dim2)."""
    return torch.diag_embed(Input, offset, dim1, dim2)


@operator("tril_triu", outputs="Out", uses="")
def tril_triu(X: Tensor, *, diagonal: int = 0, lower: bool) -> Tensor:
    """The lower or upper triangle, zero elsewhere."""
    return torch.tril(X, diagonal) if lower else torch.triu(X, diagonal)


@gradient("tril_triu")
def tril_triu_grad(d_Out: Tensor, *, diagonal: int = 0, lower: bool) -> Tensor:
    """The same triangle of d_Out."""
    return torch.tril(d_Out, diagonal) if lower else torch.triu(d_Out, diagonal)


@operator("cross", outputs="Out", uses="X Y")
def cross(X: Tensor, Y: Tensor, *, dim: int = 9) -> Tensor:
    """The vector product along `dim`; 9 stands for the first dimension of size 3."""
    out: Tensor = torch.linalg.cross(X, Y, dim=list(X.shape).index(3) if dim == 9 else dim)
    return out


@operator("kron", outputs="Out", uses="X Y", lod="")
def kron(X: Tensor, Y: Tensor) -> Tensor:
    """The Kronecker product."""
    return torch.kron(X, Y)


@operator("meshgrid", outputs="Out*", uses="X", lod="")
def meshgrid(X: list[Tensor]) -> list[Tensor]:
    """Each vector along its own dimension of one grid."""
    return [one.contiguous() for one in torch.meshgrid(*X, indexing="ij")]


@gradient("meshgrid")
def meshgrid_grad(X: list[Tensor], d_Out: list[Tensor]) -> list[Tensor]:
    """The sums over the other dimensions."""
    rank = len(X)
    return [
        grad.sum([dim for dim in range(rank) if dim != own]) if rank > 1 else grad.clone()
        for own, grad in enumerate(d_Out)
    ]


@operator(
    "bilinear_tensor_product", gradient_lod="none", outputs="Out", uses="X Y Weight", amp="fast"
)
def bilinear_tensor_product(
    X: Tensor, Y: Tensor, Weight: Tensor, Bias: Tensor | None = None
) -> Tensor:
    """Out[n, i] = X[n] · Weight[i] · Y[n] + Bias[i]."""
    return torch.nn.functional.bilinear(X, Y, Weight, None if Bias is None else Bias.reshape(-1))


@gradient("bilinear_tensor_product")
def bilinear_tensor_product_grad(
    X: Tensor, Y: Tensor, Weight: Tensor, d_Out: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of X, Y, Weight and Bias."""
    d_x = torch.einsum("no,oij,nj->ni", d_Out, Weight, Y)
    d_y = torch.einsum("no,oij,ni->nj", d_Out, Weight, X)
    d_weight = torch.einsum("no,ni,nj->oij", d_Out, X, Y)
    return d_x, d_y, d_weight, d_Out.sum(0, keepdim=True)


@operator("fsp", gradient_lod="none", outputs="Out", uses="X Y", amp="fast")
def fsp(X: Images, Y: Images) -> Tensor:
    """(N, Cx, Cy): means over the pixels of the products of X's and Y's channels."""
    x, y = X.flatten(2), Y.flatten(2)
    return torch.bmm(x, y.transpose(1, 2)) / x.shape[2]


@operator("index_select", outputs="Out", uses="X Index", differentiable="X")
def index_select(X: Tensor, Index: Tensor, *, dim: int = 0) -> Tensor:
    """The slices of X along `dim` that Index names."""
    return X.index_select(dim, Index.reshape(-1))


@gradient("index_select")
def index_select_grad(X: Tensor, Index: Tensor, d_Out: Tensor, *, dim: int = 0) -> Tensor:
    """The slices of d_Out added up in their places."""
    return torch.zeros_like(X).index_add_(dim, Index.reshape(-1), d_Out)


@operator(
    "index_sample",
    outputs="Out",
    uses="X Index",
    differentiable="X",
    lod="Index",
    follows={"Out": "Index"},
)
def index_sample(X: Tensor, Index: Tensor) -> Tensor:
    """Out[i, j] = X[i, Index[i, j]]."""
    if not X.is_meta and X.shape[0] != Index.shape[0]:
        raise EnforceNotMet(f"X {list(X.shape)} and Index {list(Index.shape)} differ in rows")
    return X.gather(1, Index.long())


@gradient("index_sample", bare=True)
def index_sample_grad(X: Tensor, Index: Tensor, d_Out: Tensor) -> Tensor:
    """The elements of d_Out added up in their places."""
    return torch.zeros_like(X).scatter_add_(1, Index.long(), d_Out)


@operator("allclose", outputs="Out", uses=None, lod="")
def allclose(
    Input: Tensor,
    Other: Tensor,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Whether |Input - Other| <= atol + rtol * |Other| everywhere, bool of shape (1,)."""
    return torch.isclose(Input, Other, rtol, atol, equal_nan).all().reshape(1)


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


@gradient("spectral_norm")
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
