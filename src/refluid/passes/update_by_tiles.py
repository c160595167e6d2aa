"""d_w = gemm_grad(x, w, d) ; update(w, d_w) -> update_by_tiles(x, w, d), of large weights

Their gradient is never in memory as a whole, and the pass over weights that updates them reads
them for the gradient of x, too.
"""

from __future__ import annotations

import math
from typing import Any

from refluid.core.dtypes import VarType
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, defined, with_fact
from refluid.passes.pattern import Match
from refluid.passes.rewrite import Rule

# Numbers of weights from which a tile at a time is worth it.
_LARGE = 2**21
_GEMMS = (
    "gemm: fused_gemm_epilogue_grad(X=x, Y=w, Bias=bias, Out=out?, Out@GRAD=d_out) "
    "-> X@GRAD=d_x?, Y@GRAD=d_w, Bias@GRAD=d_bias?",
    "gemm: mul_grad(X=x, Y=w, Out@GRAD=d_out) -> X@GRAD=d_x?, Y@GRAD=d_w",
)
_GIVEN, _FOUND = "X=x, Out=out, Out@GRAD=d_out", "DX=d_x, DBias=d_bias"


def gemm_settings(gemm: Operator) -> dict[str, Any]:
    """How the first factor of a product is seen as a matrix, and its activation."""
    columns = gemm.attrs.get("x_num_col_dims", 1)
    return {"x_num_col_dims": columns, "activation": gemm.attrs.get("activation", "")}


def no_large_matrix(match: Match, least: int) -> str | None:
    """Why the weights `w` of `gemm` are no matrix of so many numbers, multiplied by as it is."""
    weights, gemm = match.var("w"), match.op("gemm")
    is_matrix = len(weights.shape) == 2 and min(weights.shape) > 0
    if not is_matrix or math.prod(weights.shape) < least:
        return f"{weights.name} {list(weights.shape)} is no large matrix"
    if gemm.attrs.get("trans_y") or gemm.attrs.get("y_num_col_dims", 1) != 1:
        return f"{weights.name} is transposed"
    return None


def _attributes(match: Match) -> dict[str, Any]:
    update = match.op("update")
    taken = defined(defined(update.type).by_tiles).attributes
    return {
        **gemm_settings(match.op("gemm")),
        "needs": [int(match.name(symbol) is not None) for symbol in ("d_x", "d_bias")],
        **{name: value for name, value in update.attrs.items() if name in taken},
    }


def _is_worth_it(match: Match) -> str | None:
    weights = match.var("w")
    found = no_large_matrix(match, _LARGE)
    if found is None and not (
        weights.dtype == match.var("x").dtype == match.var("d_out").dtype == VarType.FP32
    ):
        return f"{weights.name} is multiplied in another type than float32"
    return found


def _rules(update: OperatorDef) -> list[Rule]:
    """Of one kind of update, which overwrites what it keeps for weights."""
    slots = [slot for slot in update.mutates.values() if slot != "Param"]
    read = "".join(f"{slot}=old_{slot}, " for slot in slots)
    made = ", ".join(f"{slot}Out=new_{slot}" for slot in ("Param", *slots))
    found = f"update: {update.type}(Param=w, Grad=d_w, {read}LearningRate=rate) -> {made}"
    fused = f"{update.by_tiles}({_GIVEN}, Param=w, {read}LearningRate=rate) -> {_FOUND}, {made}"
    return [
        Rule(f"{gemm}\n{found}", fused, "", "", _attributes, _is_worth_it, early=True)
        for gemm in _GEMMS
    ]


RULES = tuple(rule for name in sorted(with_fact("by_tiles")) for rule in _rules(defined(name)))
