"""filter_by_instag: instances that carry one of some tags."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_rows
from refluid.ops.registry import OperatorDef, gradient, operator
from refluid.ops.signature import Long


def _infer_filtered(definition: OperatorDef, op: Operator) -> None:
    infer_rows(Out="Ins")(definition, op)
    for slot, columns in (("LossWeight", 1), ("IndexMap", 2)):
        op.block.var_recursive(op.output(slot)[0]).describe(shape=(-1, columns), dtype=None)
    for name in op.output_arg_names:
        op.block.var_recursive(name).lod_level = 0


@operator(
    "filter_by_instag",
    outputs="Out LossWeight IndexMap",
    uses="Ins LossWeight IndexMap",
    differentiable="Ins",
    makes_lod="Out LossWeight",
    without_lod="IndexMap",
    infer=_infer_filtered,
)
def filter_by_instag(
    Ins: Tensor,
    Ins_tag: Tensor,
    Filter_tag: Tensor,
    *,
    is_lod: bool,
    out_val_if_empty: Long = 0,
    lod_Ins: Levels = (),
    lod_Ins_tag: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Levels, Levels]:
    """The instances of Ins (rows, or sequences with is_lod) with a tag that is in Filter_tag.

    Ins_tag: a sequence of tags, or a row of them, per instance. LossWeight: 1 per row of Out.
    IndexMap, int64 (instances, 2): first row in Out and in Ins. Where no instance is left, Out
    is one row of out_val_if_empty with weight 0.
    """
    kept = _chosen(Ins_tag, Filter_tag, lod_Ins_tag)
    offsets = lod_Ins[-1] if is_lod and lod_Ins else Offsets(range(len(Ins) + 1))
    if len(offsets) != len(kept):
        raise EnforceNotMet(
            f"filter_by_instag: Ins has {len(offsets)} instances, Ins_tag has {len(kept)}"
        )
    if not bool(kept.any()):
        out = Ins.new_full((1, *Ins.shape[1:]), out_val_if_empty)
        index = torch.tensor([[0, 1]], device=Ins.device)
        lod = (Offsets((0, 1)),)
        return out, _weights(Ins, 1, 0.0), index, lod, lod
    owners = offsets.owners(Ins.device)
    out = Ins[kept[owners]]
    lengths = offsets.length_tensor(Ins.device)[kept]
    made = Offsets.of_lengths(lengths.tolist())
    first = offsets.tensor(Ins.device)[:-1][kept]
    index = torch.stack([made.tensor(Ins.device)[:-1], first], 1)
    return out, _weights(Ins, len(out), 1.0), index, (made,), (made,)


def _weights(like: Tensor, rows: int, value: float) -> Tensor:
    kind = like.dtype if like.is_floating_point() else torch.float32
    return torch.full((rows, 1), value, dtype=kind, device=like.device)


def _chosen(tags: Tensor, wanted: Tensor, levels: Levels) -> Tensor:
    """For each instance whether one of its tags is wanted."""
    found = torch.isin(tags, wanted)
    if not levels:
        return found.reshape(len(tags), -1).any(1)
    hits = torch.zeros(len(levels[-1]), dtype=torch.int64, device=tags.device)
    rows = found.reshape(len(tags), -1).any(1).long()
    return hits.index_add_(0, levels[-1].owners(tags.device), rows) > 0


@gradient("filter_by_instag")
def filter_by_instag_grad(
    Ins: Tensor,
    LossWeight: Tensor,
    IndexMap: Tensor,
    d_Out: Tensor,
    *,
    lod_Ins: Levels = (),
    lod_Out: Levels = (),
) -> Tensor:
    """d_Out where its rows came from, zero elsewhere."""
    grad = torch.zeros_like(Ins)
    if not bool(LossWeight.any()) or not lod_Out:
        return grad
    offsets = lod_Out[-1]
    owners = offsets.owners(Ins.device)
    rows = IndexMap[owners, 1] + offsets.positions(Ins.device)
    return grad.index_copy_(0, rows, d_Out)
