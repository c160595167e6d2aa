"""Which ground truth each prior is for."""

from __future__ import annotations

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable

__all__ = ["bipartite_match", "target_assign"]


def bipartite_match(
    dist_matrix: Variable,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """For each column the row it is matched to, greedily by the largest distance.

    dist_matrix: (rows, columns), a sequence of rows per instance. Returns int32 (instances,
    columns), the row in the instance or -1; and the distance, 0 for none. match_type:
    'bipartite', or 'per_prediction', where columns left over take their best row if it is
    at `dist_threshold` (0.5) or above.
    """
    attrs = {"match_type": match_type, "dist_threshold": dist_threshold}
    kinds = {"ColToRowMatchIndices": VarType.INT32, "ColToRowMatchDist": dist_matrix.dtype}
    row, distance = op("bipartite_match", {"DistMat": dist_matrix}, attrs, kinds, name=name)
    return row, distance


def target_assign(
    input: Variable,
    matched_indices: Variable,
    negative_indices: Variable | None = None,
    mismatch_value: int | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """What each prior shall predict (N, P, K), and its weight, float32 (N, P, 1).

    input: (rows, P or 1, K), a sequence of rows per instance. matched_indices: int32 (N, P), the
    row of the instance; priors of -1 get `mismatch_value` (0) and weight 0, but weight 1 where
    negative_indices (a sequence of int32 per instance) names them.
    """
    inputs = {"X": input, "MatchIndices": matched_indices, "NegIndices": negative_indices}
    kinds = {"Out": input.dtype, "OutWeight": VarType.FP32}
    attrs = {"mismatch_value": mismatch_value}
    out, weight = op("target_assign", inputs, attrs, kinds, name=name)
    return out, weight
