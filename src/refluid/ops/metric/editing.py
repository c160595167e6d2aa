"""How many insertions, deletions and substitutions lie between sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.ops.registry import operator
from refluid.ops.required import require_single
from refluid.ops.sequence.levels import infer_from, offsets_of, sequences_of
from refluid.ops.sequence.padded import pad_rows
from refluid.ops.sequence.padding import lengths_of

Shape = Sequence[int]


def padded_ids(
    ids: Tensor, length: Tensor | None, lod: Levels, slot: str
) -> tuple[Tensor, Offsets]:
    """Numbers as (sequences, longest) with their lengths, from either form.

    Either (n, 1) with sequences, or (sequences, longest) and lengths. Fluid takes the offsets of
    the first level of sequences for those of rows.
    """
    if length is not None:
        flat = ids.flatten(1)
        return flat, lengths_of(length, flat.shape[1])
    sequences = lod[0] if lod else sequences_of(ids, lod, slot)
    if sequences.total == 0:
        return ids.new_zeros((len(sequences), 1)), sequences
    require_single(slot, ids)
    rows = ids.flatten()[: sequences.total]
    if len(rows) < sequences.total:
        raise EnforceNotMet(f"{slot} has {len(rows)} rows but its LoD is {offsets_of(lod)}")
    return pad_rows(rows, sequences, sequences.longest), sequences


def distances(hyps: Tensor, refs: Tensor, lengths: Tensor, ref_lengths: Tensor) -> Tensor:
    """Levenshtein distances of (batch, m) and (batch, n), float32 of shape (batch,).

    Row i of the table of all prefixes follows from row i - 1: substitutions and deletions
    element by element, insertions as a running minimum. All pairs go at once.
    """
    batch, places = refs.shape[0], torch.arange(refs.shape[1] + 1, device=refs.device)
    row = places.expand(batch, -1)
    table = [row]
    for i in range(hyps.shape[1]):
        differs = (refs != hyps[:, i : i + 1]).long()
        best = torch.minimum(row[:, 1:] + 1, row[:, :-1] + differs)
        best = torch.cat((torch.full_like(row[:, :1], i + 1), best), 1)
        row = (best - places).cummin(1).values + places
        table.append(row)
    rows = torch.stack(table)[lengths, torch.arange(batch, device=refs.device)]
    return rows.gather(1, ref_lengths.unsqueeze(1)).squeeze(1).float()


def _described(
    Hyps: Shape, Refs: Shape, HypsLength: Shape | None, RefsLength: Shape | None
) -> Shape:
    """Fluid says Out has the shape of Refs, and that as many lengths have to be known."""
    rows = [one[0] for one in (Hyps, HypsLength, RefsLength) if one is not None]
    if HypsLength is not None and RefsLength is not None and len(set(rows)) > 1:
        raise EnforceNotMet(
            f"edit_distance: Hyps {list(Hyps)}, HypsLength {list(HypsLength)} and RefsLength "
            f"{list(RefsLength)} must declare the same first size"
        )
    return Refs


@operator(
    "edit_distance",
    outputs="SequenceNum Out",
    uses=None,
    lod="",
    infer=infer_from(
        {"SequenceNum": lambda Hyps: (1,), "Out": _described},
        dtypes={"SequenceNum": None, "Out": None},
    ),
)
def edit_distance(
    Hyps: Tensor,
    Refs: Tensor,
    HypsLength: Tensor | None = None,
    RefsLength: Tensor | None = None,
    *,
    lod_Hyps: Levels,
    lod_Refs: Levels,
    normalized: bool = False,
) -> tuple[Tensor, Tensor]:
    """The Levenshtein distance of each sequence of Hyps to that of Refs, float32 (sequences, 1).

    Both are int64 (n, 1) with sequences, or (sequences, longest) with lengths. normalized:
    divided by the length of the reference, which then must not be 0. SequenceNum: int64 (1,).
    """
    hyps, hyp_sequences = padded_ids(Hyps, HypsLength, lod_Hyps, "Hyps")
    refs, ref_sequences = padded_ids(Refs, RefsLength, lod_Refs, "Refs")
    count = len(ref_sequences)
    if len(hyp_sequences) != count:
        raise EnforceNotMet(f"{len(hyp_sequences)} sequences of Hyps but {count} of Refs")
    if normalized and ref_sequences.some_empty:
        raise EnforceNotMet("a reference of Refs is empty: its distance can't be normalized")
    ref_lengths = ref_sequences.length_tensor(refs.device)
    out = distances(hyps, refs, hyp_sequences.length_tensor(refs.device), ref_lengths)
    if normalized:
        out = out / ref_lengths
    number = torch.full((1,), count, dtype=torch.int64, device=refs.device)
    return number, out.unsqueeze(1)
