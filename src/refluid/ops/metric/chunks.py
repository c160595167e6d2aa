"""Chunks in tag sequences, as named entities are: how many are found, and found rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.by_loops import are_plain, loops_pay
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.sequence.levels import sequences_of


@dataclass(frozen=True)
class _Scheme:
    """Number of tags per chunk type. opening: tags that always start a chunk; closing: that end."""

    tags: int
    opening: tuple[int, ...]
    closing: tuple[int, ...]

    @property
    def breaks(self) -> tuple[int, int]:
        """Both as bits."""
        return sum(1 << one for one in self.opening), sum(1 << one for one in self.closing)


class _Places(NamedTuple):
    """Where sequences begin, or how long they are, of so many that lie `apart` rows apart."""

    starts: Tensor | None
    lengths: Tensor | None
    number: int
    apart: int


_SCHEMES = {
    "IOB": _Scheme(2, opening=(0,), closing=()),
    "IOE": _Scheme(2, opening=(), closing=(1,)),
    "IOBES": _Scheme(4, opening=(0, 3), closing=(2, 3)),
    "plain": _Scheme(1, opening=(), closing=()),
}
# So many tags are counted by compiled loops from the first call on.
_MANY = 2**15
_RATIOS = ("Precision", "Recall", "F1-Score")


def _infer(definition: OperatorDef, op: Operator) -> None:
    for slot, names in op.outputs.items():
        dtype = VarType.FP32 if slot in _RATIOS else VarType.INT64
        for name in names:
            op.block.var_recursive(name).describe(shape=(1,), dtype=dtype)


@operator(
    "chunk_eval",
    outputs="Precision Recall F1-Score NumInferChunks NumLabelChunks NumCorrectChunks",
    uses=None,
    lod="",
    infer=_infer,
)
def chunk_eval(
    Inference: Tensor,
    Label: Tensor,
    SeqLength: Tensor | None = None,
    *,
    num_chunk_types: int,
    chunk_scheme: str = "IOB",
    excluded_chunk_types: Sequence[int] = (),
    lod_Label: Levels,
) -> tuple[Tensor, ...]:
    """Precision, recall and F1 of the chunks, float32 (1,), and their numbers, int64 (1,).

    Inference and Label: int64 tags (rows, 1) with a LoD, or padded (sequences, longest) with
    SeqLength (sequences,). A tag is type * tags per type + kind, kinds being begin, inside, end
    and single as far as the scheme (IOB, IOE, IOBES, plain) has them; tags from num_chunk_types
    * tags per type on are outside of chunks. A chunk is right when both have it from the same
    row to the same row with the same type.
    """
    if chunk_scheme not in _SCHEMES:
        raise EnforceNotMet(f"chunk_eval: scheme {chunk_scheme!r} is none of {list(_SCHEMES)}")
    scheme = _SCHEMES[chunk_scheme]
    layout = _places(Inference, Label, SeqLength, lod_Label)
    if layout is not None:
        of_tags = scheme.tags, num_chunk_types, scheme.breaks
        return _by_loop(Inference, Label, layout, of_tags, excluded_chunk_types)
    first, valid = _sequences(Label, SeqLength, lod_Label)
    excluded = torch.tensor(list(excluded_chunk_types), device=Label.device)
    found = []
    for tags in (Inference, Label):
        tags = tags.reshape(-1)[valid] if valid is not None else tags.reshape(-1)
        found.append(_chunks(tags, first, scheme, num_chunk_types, excluded))
    inferred, labelled = found
    same = (inferred[0] >= 0) & (inferred[0] == labelled[0]) & (inferred[1] == labelled[1])
    counts = [((one[0] >= 0).sum()).view(1) for one in found] + [same.sum().view(1)]
    precision, recall = _ratio(counts[2], counts[0]), _ratio(counts[2], counts[1])
    score = torch.nan_to_num(2 * precision * recall / (precision + recall))
    return precision, recall, score, *counts


def _places(
    inference: Tensor, label: Tensor, lengths: Tensor | None, lod: Levels
) -> _Places | None:
    """Where a compiled loop finds the sequences; None where torch is to count."""
    if not label.numel() or label.numel() != inference.numel():
        return None
    if not loops_pay(label.numel(), _MANY) or not are_plain(torch.int64, inference, label, lengths):
        return None
    count = label.shape[0]
    if lengths is not None:
        fits = lengths.numel() == count
        return _Places(None, lengths, count, label.numel() // count) if fits else None
    if not lod or label.numel() != count:
        return None
    offsets = sequences_of(label, lod, "Label", levels=1)
    return _Places(offsets.tensor().contiguous(), None, len(offsets), 0)


def _by_loop(
    inference: Tensor,
    label: Tensor,
    places: _Places,
    scheme: tuple[int, int, tuple[int, int]],
    excluded: Sequence[int],
) -> tuple[Tensor, ...]:
    from refluid.kernels.labelling.counts import count_chunks  # few programs count so often

    left_out = torch.tensor(excluded, dtype=torch.int64) if excluded else label
    made = *(torch.empty(1) for _ in range(3)), *(label.new_empty(1) for _ in range(3))
    given = inference.data_ptr(), label.data_ptr(), left_out.data_ptr(), len(excluded)
    starts, lengths = (0 if one is None else one.data_ptr() for one in places[:2])
    layout = starts, lengths, places.number, places.apart
    count_chunks(given, layout, tuple(one.data_ptr() for one in made), scheme)
    return made


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return part.float() / whole.clamp(min=1)


def _sequences(label: Tensor, lengths: Tensor | None, lod: Levels) -> tuple[Tensor, Tensor | None]:
    """Whether each row is the first of its sequence; which rows count, if not all."""
    device = label.device
    if lengths is None:
        if not lod:
            raise EnforceNotMet("chunk_eval needs a Label with LoD, or padded tags and SeqLength")
        return sequences_of(label, lod, "Label", levels=1).positions(device) == 0, None
    count = label.shape[0]
    places = torch.arange(label.numel() // count if count else 0, device=device)
    valid = (places < lengths.reshape(-1, 1)).reshape(-1)
    return (places == 0).repeat(count)[valid], valid


def _chunks(
    tags: Tensor, first: Tensor, scheme: _Scheme, types: int, excluded: Tensor
) -> tuple[Tensor, Tensor]:
    """For each row the last row of the chunk that starts there (-1 for none), and its type."""
    kind, label = tags % scheme.tags, (tags // scheme.tags).clamp(max=types)
    inside = label != types
    joined = torch.zeros_like(inside)
    if tags.numel() > 1:
        joined[1:] = inside[1:] & (label[1:] == label[:-1]) & ~first[1:]
        for closing in scheme.closing:
            joined[1:] &= kind[:-1] != closing
        for opening in scheme.opening:
            joined[1:] &= kind[1:] != opening
    starts = inside & ~joined
    ends = inside.clone()
    ends[:-1] &= ~joined[1:]
    last = torch.full_like(tags, -1)
    last[starts] = ends.nonzero().view(-1)
    if excluded.numel():
        last[torch.isin(label, excluded)] = -1
    return last, label
