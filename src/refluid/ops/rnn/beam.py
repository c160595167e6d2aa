"""Beam search: one step of it, and reading the paths back where they are held as tensors.

A row is a prefix; the LoD says which prefixes belong to which source sentence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator


def _infer(definition: OperatorDef, op: Operator) -> None:
    scores = op.block.var_recursive(op.input("scores")[0])
    described = {
        "selected_ids": ((-1, 1), VarType.INT64),
        "selected_scores": ((-1, 1), scores.dtype if scores.has_description() else VarType.FP32),
        "parent_idx": ((-1,), VarType.INT32),
    }
    for slot, (shape, dtype) in described.items():
        for name in op.output(slot):
            op.block.var_recursive(name).describe(shape=shape, dtype=dtype)


def _rows_of_sources(lod: Levels, level: int) -> Offsets:
    if not 0 <= level < len(lod):
        raise EnforceNotMet(
            f"beam_search needs scores with LoD that says which prefixes a source sentence has; "
            f"these have {len(lod)} levels, level {level} was asked for"
        )
    found = lod[level]
    for below in lod[level + 1 :]:
        found = found.through(below)
    return found


@operator(
    "beam_search",
    outputs="selected_ids selected_scores parent_idx?",
    uses=None,
    lod="",
    makes_lod="selected_ids selected_scores",
    infer=_infer,
)
def beam_search(
    pre_ids: Tensor,
    pre_scores: Tensor,
    ids: Tensor | None,
    scores: Tensor,
    *,
    level: int,
    beam_size: int,
    end_id: int,
    is_accumulated: bool = True,
    lod_scores: Levels,
) -> tuple[Tensor, Tensor, Tensor, Levels, Levels]:
    """The beam_size best continuations of each source sentence's prefixes.

    pre_ids and pre_scores (prefixes, 1): last word and score of each prefix; scores (prefixes,
    candidates), added up over the words unless is_accumulated is False (then they are
    probabilities); ids likewise, by default the columns. A prefix that ended stays as it is and
    takes a place of the beam; a sentence all of whose best prefixes have ended before is dropped.
    selected_ids and selected_scores (n, 1) are in the order of the prefixes they continue, the
    best first, parent_idx (n,) names those. LoD: source sentences to prefixes to continuations.
    """
    sources = _rows_of_sources(lod_scores, level)
    rows = scores.shape[0]
    if sources.total != rows:
        raise EnforceNotMet(f"the LoD of scores covers {sources.total} prefixes of {rows}")
    value = scores.reshape(rows, scores.numel() // max(rows, 1))
    if not is_accumulated:
        value = pre_scores.reshape(-1, 1) + torch.log(value)
    given = (
        _held(pre_ids.reshape(-1), torch.long),
        _held(pre_scores.reshape(-1), value.dtype),
        torch.empty(0, 0, dtype=torch.long)
        if ids is None
        else _held(ids.reshape(value.shape), torch.long),
        _held(value, value.dtype),
        sources.tensor(),
    )
    room, bounds = beam_size * len(sources), torch.empty(rows + 1, dtype=torch.long)
    kept = torch.empty(room, dtype=value.dtype)
    parents, words = torch.empty(room, dtype=torch.int32), torch.empty(room, dtype=torch.long)
    from refluid.kernels.beams import choose_beams  # few programs search

    made = choose_beams(*given, end_id, beam_size, kept, parents, words, bounds)
    found = (words[:made].view(-1, 1), kept[:made].view(-1, 1), parents[:made])
    lod = sources, Offsets(bounds.numpy())
    word, score, parent = (one.to(scores.device) for one in found)
    return word, score, parent, lod, lod


def _held(given: Tensor, dtype: torch.dtype) -> Tensor:
    """As compiled code takes it; beams are few numbers, wherever scores are computed."""
    return given.to("cpu", dtype).contiguous()


@operator("gather_tree", outputs="Out", uses=None, lod="")
def gather_tree(Ids: Tensor, Parents: Tensor) -> Tensor:
    """The words of each beam's whole path, (steps, batch, beam).

    Ids and Parents (steps, batch, beam) are the words chosen at each step and the beams of the
    step before that they continue.
    """
    out = torch.empty_like(Ids)
    if not Ids.shape[0]:
        return out
    out[-1] = Ids[-1]
    beam, steps = Parents[-1].long(), range(Ids.shape[0] - 2, -1, -1)
    for step in steps[:1] if Ids.is_meta else steps:  # one tells the shapes
        out[step] = Ids[step].gather(1, beam)
        beam = Parents[step].gather(1, beam).long()
    return out
