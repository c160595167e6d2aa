"""Products with what follows them, and sums with dropout."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.norm import layer_norm
from refluid.paddle.nn.functional.shapes import dropout
from refluid.paddle.tensor import linalg, math
from refluid.paddle.tensor.making import rank_of

# What `fused_gemm_epilogue` does after a product.
_EPILOGUES = {None: "", "none": "", "relu": "relu"}


def _product(
    x: Variable, y: Variable, bias: Variable, activation: str, name: str | None
) -> Variable:
    """x · y + bias and an activation, as one operator."""
    attrs = {"x_num_col_dims": -1, "activation": activation}
    inputs = {"X": x, "Y": y, "Bias": bias}
    return op("fused_gemm_epilogue", inputs, attrs, name=name)


def _turned(x: Variable) -> Variable:
    places = list(range(rank_of(x)))
    places[-2:] = places[:-3:-1]
    return op("transpose2", {"X": x}, {"axis": places})


def fused_matmul_bias(
    x: Variable,
    y: Variable,
    bias: Variable | None = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """x · y + bias, as one operator where y is a matrix."""
    if bias is None:
        return linalg.matmul(x, y, transpose_x, transpose_y, name)
    if rank_of(y) != 2:
        return math.add(linalg.matmul(x, y, transpose_x, transpose_y), bias)
    x, y = _turned(x) if transpose_x else x, _turned(y) if transpose_y else y
    return _product(x, y, bias, "", name)


def fused_linear(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    transpose_weight: bool = False,
    name: str | None = None,
) -> Variable:
    """x · weight + bias, as one operator."""
    return fused_matmul_bias(x, weight, bias, False, transpose_weight, name)


def fused_linear_activation(
    x: Variable,
    y: Variable,
    bias: Variable,
    trans_x: bool = False,
    trans_y: bool = False,
    activation: str | None = None,
) -> Variable:
    """x · y + bias and an activation: `relu` in the same operator, `gelu` after it."""
    if activation in _EPILOGUES and rank_of(y) == 2:
        x, y = _turned(x) if trans_x else x, _turned(y) if trans_y else y
        return _product(x, y, bias, _EPILOGUES[activation], None)
    made = fused_matmul_bias(x, y, bias, trans_x, trans_y)
    return made if activation in _EPILOGUES else op(str(activation), {"X": made})


def fused_dropout_add(
    x: Variable,
    y: Variable,
    p: float = 0.5,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """dropout(x) + y."""
    return math.add(dropout(x, p, None, training, mode), y)


def fused_bias_dropout_residual_layer_norm(
    x: Variable,
    residual: Variable,
    bias: Variable | None = None,
    ln_scale: Variable | None = None,
    ln_bias: Variable | None = None,
    dropout_rate: float = 0.5,
    ln_epsilon: float = 1e-5,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """layer_norm(residual + dropout(x + bias)) over the last dimension."""
    biased = x if bias is None else math.add(x, bias)
    total = fused_dropout_add(biased, residual, dropout_rate, training, mode)
    return layer_norm(total, int(x.shape[-1]), ln_scale, ln_bias, ln_epsilon)
