"""Which priors without match are trained as background: those of the highest loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.bounded import Matrix
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import operator

MAX_NEGATIVE, HARD_EXAMPLE = "max_negative", "hard_example"


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    return {
        "NegIndices": ((ROWS, 1), VarType.INT32),
        "UpdatedMatchIndices": (inputs["MatchIndices"][0], VarType.INT32),
    }


@operator(
    "mine_hard_examples",
    outputs="NegIndices UpdatedMatchIndices",
    uses=None,
    lod="",
    makes_lod="NegIndices",
    infer=infer_by(_infer),
)
def mine_hard_examples(
    ClsLoss: Matrix,
    LocLoss: Tensor | None,
    MatchIndices: Matrix,
    MatchDist: Matrix,
    *,
    neg_pos_ratio: float = 1.0,
    neg_dist_threshold: float = 0.5,
    sample_size: int = 0,
    mining_type: str = MAX_NEGATIVE,
) -> tuple[Tensor, Tensor, Levels]:
    """The negative priors to be trained, int32 (negatives, 1), a sequence per instance.

    All inputs are (N, priors); MatchIndices is -1 for priors without match. 'max_negative' takes
    those of the highest ClsLoss whose MatchDist is below `neg_dist_threshold`, `neg_pos_ratio`
    times as many as are matched. 'hard_example' takes the `sample_size` priors of the highest
    ClsLoss + LocLoss: UpdatedMatchIndices loses the matches of the others.
    """
    if mining_type not in (MAX_NEGATIVE, HARD_EXAMPLE):
        raise EnforceNotMet(
            f"mine_hard_examples: mining_type is {mining_type!r}; give {MAX_NEGATIVE!r} or "
            f"{HARD_EXAMPLE!r}"
        )
    if mining_type == MAX_NEGATIVE and neg_pos_ratio <= 0:
        raise EnforceNotMet(f"neg_pos_ratio has to be greater than 0, but is {neg_pos_ratio}")
    if mining_type == MAX_NEGATIVE and neg_dist_threshold >= 1:
        raise EnforceNotMet(f"neg_dist_threshold has to be below 1, but is {neg_dist_threshold}")
    if not ClsLoss.shape == MatchIndices.shape == MatchDist.shape:
        raise EnforceNotMet(
            f"ClsLoss {list(ClsLoss.shape)}, MatchIndices {list(MatchIndices.shape)} and MatchDist "
            f"{list(MatchDist.shape)} have to be of one shape"
        )
    free = MatchIndices == -1
    if mining_type == MAX_NEGATIVE:
        loss, eligible = ClsLoss, free & (MatchDist < neg_dist_threshold)
        wanted = ((~free).sum(1).float() * neg_pos_ratio).long()
    else:
        loss = ClsLoss if LocLoss is None else ClsLoss + LocLoss
        eligible = torch.ones_like(free)
        wanted = free.new_full(free.shape[:1], sample_size, dtype=torch.int64)
    chosen = _highest(loss.reshape(free.shape), eligible, wanted)
    negative = chosen & free
    updated = MatchIndices.clone()
    if mining_type == HARD_EXAMPLE:
        updated = updated.masked_fill(~chosen, -1)
    prior = negative.nonzero()[:, 1:].int()
    return prior, updated, (Offsets.of_lengths(negative.sum(1).tolist()),)


def _highest(loss: Tensor, eligible: Tensor, wanted: Tensor) -> Tensor:
    """Per row the `wanted` eligible elements of the highest loss."""
    order = loss.masked_fill(~eligible, -torch.inf).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order)
    places = torch.arange(loss.shape[1], device=loss.device)
    rank.scatter_(1, order, places.expand_as(order))
    return eligible & (rank < wanted[:, None])
