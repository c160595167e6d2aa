"""fused_gemm_epilogue: a matrix product, a bias for each column, and an activation in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from refluid.kernels.epilogues import activate_, deactivate, deactivate_
from refluid.kernels.products import affine, product, torchs_affine
from refluid.ops.drafts import of_ranks
from refluid.ops.registry import gradient, in_place, operator


def _rows(x: Tensor, columns: int) -> Tensor:
    """X as a matrix whose rows are its first `columns` dimensions (-1: all but the last)."""
    if x.dim() == 2 and columns in (1, -1):
        return x
    kept = x.shape[columns:]
    return x.reshape(-1, kept.numel())


def _weights(y: Tensor, columns: int, transposed: bool) -> Tensor:
    if y.dim() != 2:
        y = y.reshape(y.shape[:columns].numel(), -1)
    return y.t() if transposed else y


@operator(
    "fused_gemm_epilogue",
    called="matmul",
    outputs="Out",
    uses="X Y Bias Out",
    amp="fast",
    made_of="mul matmul fc",
    by_autograd="products",
    sums_rows={"Y": "X"},
)
def fused_gemm_epilogue(
    X: Tensor,
    Y: Tensor,
    Bias: Tensor,
    *,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    trans_y: bool = False,
    activation: str = "",
) -> Tensor:
    """activation(X · Y + Bias): X and Y as in `mul`, Bias one number for each column of Y.

    x_num_col_dims -1: all dimensions of X but the last are rows. trans_y: Y is transposed.
    activation: none (empty), relu, tanh or sigmoid.
    """
    if X.ndim == Y.ndim == 2:
        return affine(Bias, X, Y.t() if trans_y else Y, activation)
    weights = _weights(Y, y_num_col_dims, trans_y)
    out = affine(Bias, _rows(X, x_num_col_dims), weights, activation)
    lead, rest = X.shape[:x_num_col_dims], Y.shape[y_num_col_dims:]
    return out.view(*lead, *(out.shape[1:] if Y.ndim == 2 else rest))


@of_ranks("fused_gemm_epilogue")
def _of_matrices(
    ranks: tuple[int | None, ...],
    *,
    trans_y: bool = False,
    activation: str = "",
    **_columns: int,
) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """What autograd watches is torch's product (`kernels/products.py`)."""
    return None if ranks != (2, 2, 1) or trans_y else torchs_affine(activation)


def _gradients(
    X: Tensor,
    Y: Tensor,
    d_sum: Tensor,
    x_num_col_dims: int,
    y_num_col_dims: int,
    trans_y: bool,
    need: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    x, y = _rows(X, x_num_col_dims), _weights(Y, y_num_col_dims, trans_y)
    grad = d_sum if d_sum.dim() == 2 else d_sum.reshape(x.shape[0], y.shape[1])
    d_x = product(grad, y.t()).view(X.shape) if need[0] else None
    d_y = None
    if need[1]:
        d_y = (product(grad.t(), x) if trans_y else product(x.t(), grad)).view(Y.shape)
    return d_x, d_y, grad.sum(0) if need[2] else None


@gradient("fused_gemm_epilogue")
def fused_gemm_epilogue_grad(
    X: Tensor,
    Y: Tensor,
    Bias: Tensor,
    Out: Tensor | None,
    d_Out: Tensor,
    *,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    trans_y: bool = False,
    activation: str = "",
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of X, Y and Bias. Out is read where there is an activation."""
    d_sum = deactivate(Out, d_Out, activation)
    return _gradients(X, Y, d_sum, x_num_col_dims, y_num_col_dims, trans_y, need)


@in_place("fused_gemm_epilogue_grad", "d_Out")
def fused_gemm_epilogue_grad_(
    *given: Any, activation: str = "", **settings: Any
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """`fused_gemm_epilogue_grad` with d_Out as its scratch memory."""
    *others, out, d_out = given
    found: tuple[Tensor | None, Tensor | None, Tensor | None]
    found = fused_gemm_epilogue_grad(*others, out, deactivate_(out, d_out, activation), **settings)
    return found


@operator(
    "mixed_gemm",
    called="matmul",
    outputs="Out",
    uses="X Y Bias Out",
    amp="fast",
    made_of="mul fc",
)
def mixed_gemm(
    X: Tensor,
    Y: Tensor,
    Bias: Tensor | None = None,
    *,
    x_num_col_dims: int = 1,
    activation: str = "",
) -> Tensor:
    """`fused_gemm_epilogue` of X and Bias in a half type, which Out has, and Y, a large matrix, in
    float32: what is the same for the cast Y, but for rounding less."""
    from refluid.kernels.mixed_products import mixed_product  # few programs have such

    out = activate_(mixed_product(_rows(X, x_num_col_dims), Y, Bias), activation)
    return out if X.dim() == 2 else out.view(*X.shape[:x_num_col_dims], Y.shape[1])


@gradient("mixed_gemm")
def mixed_gemm_grad(
    X: Tensor,
    Y: Tensor,
    Bias: Tensor | None,
    Out: Tensor | None,
    d_Out: Tensor,
    *,
    x_num_col_dims: int = 1,
    activation: str = "",
    need: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of X and Bias in their type, and of Y in float32."""
    from refluid.kernels.mixed_products import mixed_gradient, mixed_product

    x = _rows(X, x_num_col_dims)
    grad = deactivate(Out, d_Out, activation).reshape(len(x), -1)
    d_x = mixed_product(grad, Y.t()).view(X.shape) if need[0] else None
    d_y = mixed_gradient(x, grad) if need[1] else None
    return d_x, d_y, grad.sum(0) if need[2] else None
