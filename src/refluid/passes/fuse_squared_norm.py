"""reduce_sum(square(x)) -> squared_l2_norm(x), and its gradient.

The sum of squares that clipping by the global norm takes of each gradient, without the squares as
a tensor of their own.
"""

from __future__ import annotations

from refluid.core.dtypes import VarType
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

_SUMMED = (VarType.FP32, VarType.FP64)


def _to_one_number(match: Match) -> str | None:
    """All elements of a dense tensor must be summed, to a tensor of shape [1]."""
    total, x = match.op("total"), match.var("x")
    if not total.attr("reduce_all") or total.attr("keep_dim"):
        return f"{match.var('squares').name} is summed along some dimensions alone"
    if x.type != VarType.LOD_TENSOR or x.dtype not in _SUMMED or x.lod_level:
        return f"{x.name} is no dense tensor of float32 or float64"
    return None


RULES = (
    Rule(
        "square: square(X=x) -> Out=squares\ntotal: reduce_sum(X=squares) -> Out=out",
        "squared_l2_norm(X=x) -> Out=out",
        """total_grad: reduce_sum_grad(X=squares, Out@GRAD=d_out) -> X@GRAD=d_squares
        square_grad: square_grad(X=x, Out@GRAD=d_squares) -> X@GRAD=d_x""",
        "squared_l2_norm_grad(X=x, Out@GRAD=d_out) -> X@GRAD=d_x",
        lambda _match: {},
        _to_one_number,
    ),
)
