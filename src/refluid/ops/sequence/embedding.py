"""Rows of a table looked up by sequences of ids and added up."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.core.selected_rows import SelectedRows
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.levels import infer_from, sequences_of
from refluid.ops.sequence.padded import take_rows
from refluid.ops.sequence.pool import sum_rows
from refluid.ops.signature import Long


def _width(W: tuple[int, ...], Ids: tuple[int, ...]) -> tuple[int, int]:
    return -1, W[1] * (Ids[1] if len(Ids) > 1 else 1)


@operator(
    "fused_embedding_seq_pool",
    outputs="Out",
    lod="",
    uses="W Ids",
    differentiable="W",
    rows={"W": "Ids"},
    extra={"grad_inplace": False, "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True},
    infer=infer_from({"Out": _width}),
)
def fused_embedding_seq_pool(
    W: Tensor,
    Ids: Tensor,
    *,
    lod_Ids: Levels,
    combiner: str = "sum",
    padding_idx: Long = -1,
    is_sparse: bool = False,
) -> Tensor:
    """The sums of rows of W (rows, width) over each sequence of Ids (n, k): (sequences, k * width).

    Ids equal to padding_idx (unless -1) count as zeros.
    """
    if combiner != "sum":
        raise EnforceNotMet(f"no combiner {combiner!r}; there is sum")
    sequences = sequences_of(Ids, lod_Ids, "Ids", levels=1)
    found = take_rows(W, Ids)
    if padding_idx != -1:
        found = found.masked_fill((Ids == padding_idx).unsqueeze(-1), 0.0)
    return sum_rows(found.flatten(1), sequences)


@gradient("fused_embedding_seq_pool", rows={"W": "Ids"})
def fused_embedding_seq_pool_grad(
    W: Tensor,
    Ids: Tensor,
    d_Out: Tensor,
    *,
    lod_Ids: Levels,
    padding_idx: Long = -1,
    is_sparse: bool = False,
) -> Tensor | SelectedRows:
    """The gradient of its sequence for each id; only the rows that were read if is_sparse."""
    owners = sequences_of(Ids, lod_Ids, "Ids", levels=1).owners(W.device)
    each = take_rows(d_Out, owners).reshape(-1, W.shape[1])
    ids = Ids.flatten()
    if padding_idx != -1:
        each = each.masked_fill((ids == padding_idx).unsqueeze(1), 0.0)
    if is_sparse:
        return SelectedRows(ids.long(), W.shape[0], each)
    return torch.zeros_like(W).index_add_(0, ids, each)
