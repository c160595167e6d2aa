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
from refluid.ops.math.largest import largest
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.sequence.padded import pad_rows, unpad_rows

_NEVER = float("-inf")


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
    rows, device = scores.shape[0], scores.device
    value = scores.reshape(rows, -1)
    if not is_accumulated:
        value = pre_scores.reshape(-1, 1) + torch.log(value)
    ended = pre_ids.reshape(-1) == end_id
    value = value.masked_fill(ended.unsqueeze(1), _NEVER)
    value[:, 0] = torch.where(ended, pre_scores.reshape(-1).to(value.dtype), value[:, 0])
    all_values, (value, place) = value, largest(value, beam_size)
    possible = value != _NEVER
    possible[:, 1:] &= ~ended.unsqueeze(1)
    kept = _top_of_sources(value, possible, sources, beam_size)
    for source in _tied(all_values, value.masked_fill(~kept, _NEVER), sources, beam_size):
        part = slice(*sources.values[source : source + 2])
        kept[part], place[part] = _in_turn(all_values[part], beam_size)
        value[part] = all_values[part].gather(1, place[part])
    word = place if ids is None else ids.reshape(rows, -1).gather(1, place)
    word = torch.where(ended.unsqueeze(1), end_id, word.long())
    over = _finished(kept & ~(ended & (word[:, 0] == end_id)).unsqueeze(1), sources)
    kept &= ~over[sources.owners(device)].unsqueeze(1)
    chosen = kept.nonzero(as_tuple=True)
    counts = Offsets.of_lengths(kept.sum(1).tolist())
    lod = sources, counts
    parents = chosen[0].to(torch.int32)
    return word[chosen].view(-1, 1), value[chosen].view(-1, 1), parents, lod, lod


def _top_of_sources(value: Tensor, possible: Tensor, sources: Offsets, count: int) -> Tensor:
    """Which candidates are among the `count` best of their source sentence."""
    shape = len(sources), sources.longest, value.shape[1]
    table = pad_rows(value.masked_fill(~possible, _NEVER), sources, shape[1], _NEVER)
    table = table.flatten(1)
    kept = torch.zeros_like(table, dtype=torch.bool)
    kept.scatter_(1, largest(table, count)[1], True)
    return unpad_rows(kept.view(shape), sources) & possible


def _tied(value: Tensor, kept: Tensor, sources: Offsets, count: int) -> list[int]:
    """The source sentences with more than `count` candidates as good as the last kept one.

    value: of all candidates. kept: of those that are kept, and -inf.
    """
    if not len(sources) or not value.shape[0]:
        return []
    owners = sources.owners(value.device)
    best = pad_rows(kept, sources, sources.longest, _NEVER).flatten(1)
    full = (best != _NEVER).sum(1) == count
    last = best.masked_fill(best == _NEVER, float("inf")).amin(1)
    good = (value >= last[owners].unsqueeze(1)).sum(1)
    candidates = torch.zeros(len(sources), dtype=torch.long, device=value.device)
    candidates.index_add_(0, owners, good)
    return (full & (candidates > count)).nonzero().flatten().tolist()


def _in_turn(value: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Which `count` candidates (prefixes, candidates) one beam keeps, seen one after the other.

    Of equal scores those of later prefixes come first, then those seen first; but one that equals
    the last of a full beam takes its place. Returns which are kept and their positions, (prefixes,
    count) each, as `paddle` 2.6.2 was seen to choose.
    """
    beam: list[tuple[float, int, int]] = []
    for row, scores in enumerate(value.tolist()):
        for column, score in enumerate(scores):
            if score == _NEVER or (len(beam) == count and (score, row) < beam[-1][:2]):
                continue
            del beam[count - 1 :]
            better = sum((score, row) <= one[:2] for one in beam)
            beam.insert(better, (score, row, column))
    size = min(count, value.shape[1])
    kept = torch.zeros(value.shape[0], size, dtype=torch.bool)
    place = torch.zeros(value.shape[0], size, dtype=torch.long)
    for row in range(value.shape[0]):
        columns = [column for _, owner, column in beam if owner == row]
        kept[row, : len(columns)] = True
        place[row, : len(columns)] = torch.tensor(columns, dtype=torch.long)
    return kept.to(value.device), place.to(value.device)


def _finished(living: Tensor, sources: Offsets) -> Tensor:
    """For each source sentence whether nothing of it lives."""
    alive = torch.zeros(len(sources), dtype=torch.long, device=living.device)
    alive.index_add_(0, sources.owners(living.device), living.any(1).long())
    return alive == 0


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
    beam = Parents[-1].long()
    for step in range(Ids.shape[0] - 2, -1, -1):
        out[step] = Ids[step].gather(1, beam)
        beam = Parents[step].gather(1, beam).long()
    return out
