"""mul(x, cast(w)) -> mixed_gemm(x, w), and its gradient, of large weights in mixed precision.

On the CPU weights cast as a whole are passes over memory that few rows don't repay. With the bias
and the activation where one operator adds them already.
"""

from __future__ import annotations

from refluid.core.dtypes import VarType
from refluid.passes.mixed_precision import HALVES
from refluid.passes.pattern import Match
from refluid.passes.rewrite import ANOTHER, Rule
from refluid.passes.update_by_tiles import gemm_settings, no_large_matrix

# Numbers of weights from which it is worth it.
_LARGE = 2**22


def _objection(match: Match, activated: bool) -> str | None:
    weights, gemm = match.var("w"), match.op("gemm")
    if bool(gemm.attrs.get("activation")) is not activated:
        return ANOTHER
    found = no_large_matrix(match, _LARGE)
    if found is None and (weights.dtype != VarType.FP32 or match.var("x").dtype not in HALVES):
        return f"{weights.name} isn't cast from float32 to a half type"
    return found


def _rule(gemm: str, bias: str, d_bias: str, out: str) -> Rule:
    """Of one kind of product. bias, d_bias, out: slots that it has beside X and Y, or none."""
    given = f"Out{'=out, Out' if out else ''}@GRAD=d_out"
    return Rule(
        f"cast: cast(X=w) -> Out=half\ngemm: {gemm}(X=x, Y=half{bias}) -> Out=out",
        f"mixed_gemm(X=x, Y=w{bias}) -> Out=out",
        f"gemm_grad: {gemm}_grad(X=x, Y=half{bias}, {given}) "
        f"-> X@GRAD=d_x?, Y@GRAD=d_half{d_bias and d_bias + '?'}\n"
        "cast_grad: cast(X=d_half) -> Out=d_w",
        f"mixed_gemm_grad(X=x, Y=w{bias}, {given}) -> X@GRAD=d_x, Y@GRAD=d_w{d_bias}",
        lambda match: gemm_settings(match.op("gemm")),
        lambda match: _objection(match, bool(out)),
        early_backward=True,
    )


_FUSED = ("fused_gemm_epilogue", ", Bias=bias", ", Bias@GRAD=d_bias")
RULES = (_rule(*_FUSED, "out"), _rule(*_FUSED, ""), _rule("mul", "", "", ""))
