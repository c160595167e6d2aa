"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.ops.extras import MUL
from refluid.ops.registry import gradient, operator


def _matrix(value: Tensor, columns: int) -> Tensor:
    """`value` as a matrix whose rows are its first `columns` dimensions."""
    if value.dim() == 2 and columns == 1:
        return value
    return value.reshape(math.prod(value.shape[:columns]), -1)


@operator("mul", outputs="Out", uses="X Y", extra=MUL, amp="fast")
def mul(X: Tensor, Y: Tensor, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Tensor:
    """X · Y, X and Y seen as matrices: the first `num_col_dims` dimensions are the rows.

    Out has the row dimensions of X followed by the column dimensions of Y.
    """
    if X.dim() == 2 and Y.dim() == 2:
        return torch.mm(X, Y)
    product = torch.mm(_matrix(X, x_num_col_dims), _matrix(Y, y_num_col_dims))
    return product.reshape(*X.shape[:x_num_col_dims], *Y.shape[y_num_col_dims:])


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
    d_x = torch.mm(out, y.t()).view(X.shape) if need[0] else None
    d_y = torch.mm(x.t(), out).view(Y.shape) if need[1] else None
    return d_x, d_y
