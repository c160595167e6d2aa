"""Diagonals, triangles and products of matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.bounded import Images
from refluid.ops.registry import gradient, operator


@operator("trace", outputs="Out", uses="Input", lod="")
def trace(Input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The sum of the diagonal of the planes (dim1, dim2); shape (1,) for a matrix."""
    if dim1 % Input.dim() == dim2 % Input.dim():
        raise EnforceNotMet(f"The dimensions should not be identical, but are {dim1} and {dim2}")
    out = torch.diagonal(Input, offset, dim1, dim2).sum(-1)
    return out if out.dim() else out.reshape(1)


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
