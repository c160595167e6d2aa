"""act(elementwise_add(mul(x, w), bias)) -> fused_gemm_epilogue(x, w, bias), and its gradient.

One `addmm` instead of a product and a sum; the product isn't kept for the gradient. `mul` or
`matmul` by a matrix; `BIAS` leaves activations out.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.epilogues import ACTIVATIONS
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_KINDS = "|".join(ACTIVATIONS)
_GEMM = """gemm: mul|matmul(X=x, Y=w) -> Out=product
    add: elementwise_add(X=product, Y=bias) -> Out=sum"""
_GEMM_GRAD = """add_grad: elementwise_add_grad(
        X=product, Y=bias, Out@GRAD=d_sum
    ) -> X@GRAD=d_product, Y@GRAD=d_bias?
    gemm_grad: {gemm}_grad(X=x, Y=w, Out@GRAD=d_product) -> X@GRAD=d_x?, Y@GRAD=d_w?"""
_GRADIENTS = "-> X@GRAD=d_x, Y@GRAD=d_w, Bias@GRAD=d_bias"


def attributes(match: Match) -> dict[str, Any]:
    """How both factors are seen as matrices, and the activation."""
    gemm = match.op("gemm")
    activation = match.op("act").type if "act" in match.positions else ""
    if gemm.type == "mul":
        rows = {name: gemm.attr(name) for name in ("x_num_col_dims", "y_num_col_dims")}
        return rows | {"activation": activation}
    trans_y = gemm.attr("transpose_Y")
    return {"x_num_col_dims": -1, "trans_y": trans_y, "activation": activation}


def _matrices(match: Match) -> str | None:
    """Why the product is not one of matrices with a number added to each column."""
    x, w, bias = match.var("x"), match.var("w"), match.var("bias")
    gemm = match.op("gemm")
    if gemm.type == "matmul":
        if len(x.shape) < 2 or len(w.shape) != 2:
            return f"{w.name} {list(w.shape)} is no matrix"
        if x.lod_level:
            return f"{x.name} has sequences, which the gradient of a matmul does not have"
        if gemm.attr("transpose_X") or gemm.attr("alpha") != 1.0:
            return f"the product of {x.name} is scaled, or one of its transpose"
    columns = match.var("product").shape[-1]
    rank = len(match.var("product").shape)
    single = gemm.type == "matmul" or len(w.shape) - gemm.attr("y_num_col_dims") == 1
    fits = columns > 0 and bias.shape == (columns,)
    if not single or not fits or match.op("add").attr("axis") not in (-1, rank - 1):
        return f"{bias.name} {list(bias.shape)} is not one number for each column"
    if len({x.dtype, w.dtype, bias.dtype}) > 1:
        return f"{x.name}, {w.name} and {bias.name} are of different types"
    return None


BIAS = (
    Rule(
        _GEMM,
        "fused_gemm_epilogue(X=x, Y=w, Bias=bias) -> Out=sum",
        _GEMM_GRAD,
        f"fused_gemm_epilogue_grad(X=x, Y=w, Bias=bias, Out@GRAD=d_sum) {_GRADIENTS}",
        attributes,
        _matrices,
    ),
)
RULES = (
    Rule(
        f"{_GEMM}\nact: {_KINDS}(X=sum) -> Out=out",
        "fused_gemm_epilogue(X=x, Y=w, Bias=bias) -> Out=out",
        f"act_grad: {{act}}_grad(Out=out, Out@GRAD=d_out) -> X@GRAD=d_sum\n{_GEMM_GRAD}",
        f"fused_gemm_epilogue_grad(X=x, Y=w, Bias=bias, Out=out, Out@GRAD=d_out) {_GRADIENTS}",
        attributes,
        _matrices,
    ),
    *BIAS,
)
