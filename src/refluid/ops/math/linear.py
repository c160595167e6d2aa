"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.kernels.products import product
from refluid.ops.extras import MATMUL, MKLDNN, MUL
from refluid.ops.math.broadcasting import conjugate, unbroadcast
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal


def _matrix(value: Tensor, columns: int) -> Tensor:
    """`value` as a matrix whose rows are its first `columns` dimensions."""
    if value.dim() == 2 and columns == 1:
        return value
    return value.reshape(math.prod(value.shape[:columns]), -1)


@operator(
    "mul",
    gradient_lod="undeclared",
    outputs="Out",
    uses="X Y",
    extra=MUL,
    amp="fast",
    matrix_product={"x_num_col_dims": 1, "y_num_col_dims": 1},
    by_autograd="products",
    sums_rows={"Y": "X"},
)
def mul(X: Tensor, Y: Tensor, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    """X · Y, X and Y seen as matrices: the first `num_col_dims` dimensions are the rows.

    Out has the row dimensions of X followed by the column dimensions of Y.
    """
    if X.dim() == 2 and Y.dim() == 2 and x_num_col_dims == y_num_col_dims == 1:
        return product(X, Y)
    for name, value, columns in (("x", X, x_num_col_dims), ("y", Y, y_num_col_dims)):
        if not 0 < columns < value.dim():
            raise EnforceNotMet(
                f"{name}_num_col_dims is {columns} but has to be from 1 to below the number of "
                f"dimensions of {name.upper()}, {list(value.shape)}"
            )
    out = product(_matrix(X, x_num_col_dims), _matrix(Y, y_num_col_dims))
    return out.reshape(*X.shape[:x_num_col_dims], *Y.shape[y_num_col_dims:])


@gradient("mul")
def mul_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out · Yᵀ, d_Y = Xᵀ · d_Out."""
    x, y = _matrix(X, x_num_col_dims), _matrix(Y, y_num_col_dims)
    out = d_Out if d_Out.dim() == 2 else d_Out.reshape(x.shape[0], y.shape[1])
    d_x = product(out, y.t()).view(X.shape) if need[0] else None
    d_y = product(x.t(), out).view(Y.shape) if need[1] else None
    return d_x, d_y


def _operands(X: Tensor, Y: Tensor, transpose_X: bool, transpose_Y: bool) -> tuple[Tensor, Tensor]:
    """X and Y as matrices, or batches of them, not transposed; a vector is a row X, a column Y."""
    x = X.unsqueeze(0) if X.dim() == 1 else X
    y = Y.unsqueeze(1) if Y.dim() == 1 else Y
    x = x.transpose(-2, -1) if transpose_X else x
    return x, y.transpose(-2, -1) if transpose_Y else y


def _product(x: Tensor, y: Tensor) -> Tensor:
    """x · y of matrices or batches of them."""
    return product(x, y) if x.dim() == y.dim() == 2 else torch.matmul(x, y)


def _rows_summed(op: Operator) -> Mapping[str, str]:
    """{Y: X} where Y is a matrix and the rows of X are those of its first dimension."""
    x, y = (len(op.block.var_recursive(op.input(slot)[0]).shape) for slot in ("X", "Y"))
    return {"Y": "X"} if y == 2 and x > 1 and not op.attrs.get("transpose_X") else {}


@operator(
    "matmul",
    gradient_lod="none",
    outputs="Out",
    uses="X Y",
    extra=MATMUL,
    amp="fast",
    matrix_product={"transpose_X": False, "transpose_Y": False, "alpha": 1.0},
    by_autograd="products",
    sums_rows=_rows_summed,
)
def matmul(
    X: Tensor,
    Y: Tensor,
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
    head_number: int = 1,
) -> Tensor:
    """alpha * X · Y of matrices (..., m, k) and (..., k, n), or their transposes.

    Dimensions before the last two broadcast. A vector X is a row, a vector Y a column (columns and
    rows where they are transposed), and the dimension added goes away again. Several heads, which
    no layer asks for and which have no gradient, are refused.
    """
    if head_number != 1:
        raise EnforceNotMet(f"head_number {head_number} is not supported; split the heads first")
    x, y = _operands(X, Y, transpose_X, transpose_Y)
    out = _product(x, y)
    if alpha != 1.0:
        out = out.mul_(alpha)
    if Y.dim() == 1 and not transpose_Y:
        out = out.squeeze(-1)
    if X.dim() == 1 and not transpose_X and out.dim() > 1:
        out = out.squeeze(0 if Y.dim() == 1 else -2)
    return out


@gradient("matmul")
def matmul_grad(
    X: Tensor,
    Y: Tensor,
    d_Out: Tensor,
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = alpha * d_Out · Yᵀ, d_Y = alpha * Xᵀ · d_Out, summed over what was broadcast."""
    x, y = _operands(X, Y, transpose_X, transpose_Y)
    rank = max(x.dim(), y.dim())
    batch = x.shape[:-2] if x.dim() == rank else y.shape[:-2]
    vectors = X.dim() == 1 or Y.dim() == 1
    out = d_Out.reshape(*batch, x.shape[-2], y.shape[-1]) if vectors else d_Out
    d_X = d_Y = None
    if need[0]:
        d_X = _factor(out, conjugate(y).transpose(-2, -1), transpose_X, alpha)
        d_X = unbroadcast(d_X, x.mT if transpose_X else x, rank - x.dim()).reshape(X.shape)
    if need[1]:
        d_Y = _factor(conjugate(x).transpose(-2, -1), out, transpose_Y, alpha)
        d_Y = unbroadcast(d_Y, y.mT if transpose_Y else y, rank - y.dim()).reshape(Y.shape)
    return d_X, d_Y


def _factor(x: Tensor, y: Tensor, transposed: bool, alpha: float) -> Tensor:
    """alpha * x · y or its transpose, in one piece of memory."""
    out = _product(y.mT, x.mT) if transposed else _product(x, y)
    return out if alpha == 1.0 else out.mul_(alpha)


@operator("addmm", outputs="Out", uses="Input X Y", extra=MKLDNN, follows={"Out": "X"})
def addmm(Input: Tensor, X: Tensor, Y: Tensor, *, Alpha: float = 1.0, Beta: float = 1.0) -> Tensor:
    """Beta * Input + Alpha * X · Y, of matrices."""
    return torch.addmm(Input, X, Y, beta=Beta, alpha=Alpha)


@operator("dot", outputs="Out", uses="X Y")
def dot(X: Tensor, Y: Tensor) -> Tensor:
    """Sums of X * Y along the last dimension, which stays with size 1."""
    require_equal("Y", Y, "X", X.shape)
    return (X * Y).sum(-1, keepdim=True)


@operator("bmm", outputs="Out", uses="X Y", amp="fast", by_autograd="always")
def bmm(X: Tensor, Y: Tensor) -> Tensor:
    """The product of each matrix of X (B, N, K) with that of Y (B, K, M)."""
    return torch.bmm(X, Y)


@gradient("bmm")
def bmm_grad(
    X: Tensor, Y: Tensor, d_Out: Tensor, *, need: Sequence[bool] = (True, True)
) -> tuple[Tensor | None, Tensor | None]:
    """d_X = d_Out · Yᵀ, d_Y = Xᵀ · d_Out for each matrix."""
    d_x = torch.bmm(d_Out, Y.transpose(1, 2)) if need[0] else None
    return d_x, torch.bmm(X.transpose(1, 2), d_Out) if need[1] else None
