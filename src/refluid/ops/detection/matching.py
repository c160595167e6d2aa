"""Which ground truth a prior box is for: matching by distance, and targets by match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.checks import one_of
from refluid.ir.operator import Operator
from refluid.ops.bounded import Matrix
from refluid.ops.detection.shapes import infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator

_LEAST = 1e-6
_TAKEN = -1.0


def _infer_match(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    shape, dtype = inputs["DistMat"]
    return {"ColToRowMatchIndices": (shape, VarType.INT32), "ColToRowMatchDist": (shape, dtype)}


@operator(
    "bipartite_match",
    outputs="ColToRowMatchIndices ColToRowMatchDist",
    uses=None,
    lod="",
    infer=infer_by(_infer_match),
)
def bipartite_match(
    DistMat: Matrix,
    *,
    lod_DistMat: Levels = (),
    match_type: Annotated[str, one_of("bipartite", "per_prediction")] = "bipartite",
    dist_threshold: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """For each column the row that it is matched to, greedily by the largest distance.

    DistMat: (rows of all instances, columns), a sequence of rows per instance. Returns the row
    in its instance, int32 (instances, columns), -1 for none; and the distance, 0 for none.
    match_type 'per_prediction': columns left over take their best row, if it has
    `dist_threshold`.
    """
    if len(lod_DistMat) > 1:
        raise EnforceNotMet(
            f"Only support 1 level of LoD, but DistMat has {len(lod_DistMat)}: one sequence of "
            "rows per instance"
        )
    offsets = lod_DistMat[-1] if lod_DistMat else Offsets((0, DistMat.shape[0]))
    index, distance = _rounds(table := _by_instance(DistMat, offsets))
    if match_type == "per_prediction" and offsets.longest:
        best, row = table.max(1)
        more = (index < 0) & (best >= max(dist_threshold, _LEAST))
        index, distance = torch.where(more, row, index), torch.where(more, best, distance)
    return index.int(), distance


def _by_instance(distances: Tensor, offsets: Offsets) -> Tensor:
    """(instances, longest, columns), filled up with what matches nothing."""
    size = len(offsets), offsets.longest, distances.shape[1]
    table = distances.new_full(size, _TAKEN)
    device = distances.device
    table[offsets.owners(device), offsets.positions(device)] = distances
    return table


def _rounds(table: Tensor) -> tuple[Tensor, Tensor]:
    """Matches every row and column that are each other's best, until none are left.

    That is what taking the largest distance of all, one after the other, comes to: of equal
    ones the first column's, and there the first row's.
    """
    instances, rows, columns = table.shape
    index = torch.full((instances, columns), -1, device=table.device)
    distance = table.new_zeros((instances, columns))
    left = table.masked_fill(table < _LEAST, _TAKEN)
    numbers = torch.arange(columns, device=table.device)
    for _ in range(rows):
        best, row = left.max(1)
        column = left.argmax(2)
        mutual = (column.gather(1, row) == numbers) & (best > _TAKEN)
        if not bool(mutual.any()):
            break
        index, distance = torch.where(mutual, row, index), torch.where(mutual, best, distance)
        matched = mutual.gather(1, column) & (
            row.gather(1, column) == torch.arange(rows, device=table.device)
        )
        left = left.masked_fill(mutual[:, None] | matched[:, :, None], _TAKEN)
    return index, distance


def _infer_assign(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    (*_, width), dtype = inputs["X"]
    size = inputs["MatchIndices"][0]
    return {"Out": ((*size, width), dtype), "OutWeight": ((*size, 1), VarType.FP32)}


@operator(
    "target_assign", outputs="Out OutWeight", uses=None, lod="", infer=infer_by(_infer_assign)
)
def target_assign(
    X: Tensor,
    MatchIndices: Tensor,
    NegIndices: Tensor | None = None,
    *,
    lod_X: Levels = (),
    lod_NegIndices: Levels = (),
    mismatch_value: int = 0,
) -> tuple[Tensor, Tensor]:
    """What each prior shall predict: Out (N, P, K) and its weight, float32 (N, P, 1).

    X: (rows, P or 1, K), a sequence of rows per instance. MatchIndices: int32 (N, P), the row
    of the instance. Priors without match get `mismatch_value` and weight 0; those named by
    NegIndices (a sequence of int32 per instance) that value and weight 1.
    """
    if not lod_X:
        raise EnforceNotMet(
            "target_assign: X carries no LoD, so the rows of an instance are unknown; feed the "
            "ground truth as a LoDTensor with one sequence per instance"
        )
    instances, priors = MatchIndices.shape
    out = X.new_full((instances, priors, X.shape[2]), mismatch_value)
    weight = torch.zeros((instances, priors, 1), device=X.device)
    instance, prior = (MatchIndices > -1).nonzero(as_tuple=True)
    if len(lod_X[-1]) != instances:
        raise EnforceNotMet(
            f"the LoD of X describes {len(lod_X[-1])} instances, but MatchIndices has {instances} "
            "rows, one per instance"
        )
    chosen = MatchIndices[instance, prior]
    if bool((chosen >= lod_X[-1].length_tensor(X.device)[instance]).any()):
        raise EnforceNotMet(
            f"MatchIndices names row {int(chosen.max())}, counted from 0, of an instance; X has "
            f"{lod_X[-1].lengths} rows of the instances"
        )
    row = lod_X[-1].tensor(X.device)[instance] + chosen
    out[instance, prior] = X[row, prior % X.shape[1]]
    weight[instance, prior] = 1.0
    if NegIndices is not None and lod_NegIndices:
        owner, negative = lod_NegIndices[-1].owners(X.device), NegIndices.reshape(-1).long()
        out[owner, negative] = mismatch_value
        weight[owner, negative] = 1.0
    return out, weight
