"""The sequences that a linear-chain CRF takes, and which of its operators are compiled loops."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.by_loops import are_plain, loops_pay
from refluid.ops.sequence.batching import TimeMajor, steps_of, time_major
from refluid.ops.sequence.levels import outer_sequences_of

# So many multiplications are done by loops from the first call on.
_MANY = 2**21


def crf_layout(emission: Tensor, length: Tensor | None, lod: Levels, what: str) -> TimeMajor:
    """The steps of the sequences that a LoD or a Length says; EnforceNotMet if it does not fit."""
    if length is None:
        outer_sequences_of(emission, lod, "Emission")
        return steps_of(lod[:1], what, False, emission.device)
    lengths = _fitting(emission, length, what)
    count, longest = emission.shape[:2]
    starts = tuple(range(0, count * longest, longest)) if longest else (0,) * count
    return time_major(starts, lengths, False, emission.device)


def crf_places(
    emission: Tensor, length: Tensor | None, lod: Levels, what: str
) -> tuple[Tensor, Tensor]:
    """The same for loops: where sequences begin and how many rows there are, and their lengths."""
    if length is None:
        offsets = outer_sequences_of(emission, lod, "Emission")
        return offsets.tensor().contiguous(), offsets.length_tensor()
    _fitting(emission, length, what)
    count, longest = emission.shape[:2]
    starts = torch.arange(0, (count + 1) * longest, longest)
    return starts, length.reshape(-1).long().contiguous()


def _fitting(emission: Tensor, length: Tensor, what: str) -> tuple[int, ...]:
    """The lengths of padded sequences; EnforceNotMet where these aren't of such lengths."""
    if emission.dim() != 3:
        raise EnforceNotMet(
            f"{what}: with a Length, Emission must be (sequences, longest, tags), "
            f"but it is {tuple(emission.shape)}"
        )
    count, longest = emission.shape[:2]
    lengths = tuple(map(int, length.reshape(-1).tolist()))
    if len(lengths) != count or max(lengths, default=0) > longest:
        raise EnforceNotMet(
            f"{what}: Length {list(lengths)} does not fit Emission {tuple(emission.shape)}"
        )
    return lengths


def crf_loops(
    emission: Tensor,
    transition: Tensor,
    label: Tensor | None,
    length: Tensor | None,
    *others: Tensor,
    most: float = math.inf,
) -> Any:
    """`kernels/labelling/crf.py` where the tags of so many rows are compiled loops; else None.

    They are for up to `most` tags of float32 and labels of int64 on the CPU; others: as the
    emissions.
    """
    size, tags = emission.numel(), emission.shape[-1]
    if not size or tags > most or not loops_pay(size * tags, _MANY):
        return None
    if emission.dim() != (2 if length is None else 3) or transition.shape != (tags + 2, tags):
        return None
    if any(one.shape != emission.shape for one in others):
        return None  # torch says what is wrong
    if label is not None and label.numel() * tags != size:
        return None
    given = emission, transition, *others
    if not are_plain(torch.int64, label) or not are_plain(torch.float32, *given):
        return None
    from refluid.kernels.labelling import crf  # few programs have tags

    return crf
