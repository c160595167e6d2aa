"""Sequences of different lengths: rows one sequence after the other, and a tensor of lengths."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def places_of(lengths: Tensor) -> Tensor:
    """The place of each row in its sequence: 0, 1, ..."""
    starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    return torch.arange(len(starts), device=lengths.device) - starts


def padded(x: Tensor, lengths: Tensor, value: float | Tensor = 0.0, longest: int = -1) -> Tensor:
    """Rows (rows, ...) as (sequences, longest, ...), `value` after the end of each sequence."""
    longest = int(lengths.max()) if longest < 0 else longest
    inside = torch.arange(longest, device=x.device) < lengths[:, None]
    out = x.new_empty((*inside.shape, *x.shape[1:]))
    out[:] = value
    out[inside] = x
    return out


def unpadded(x: Tensor, lengths: Tensor) -> Tensor:
    """The inverse of `padded`."""
    return x[torch.arange(x.shape[1], device=x.device) < lengths[:, None]]


def reverse_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence backwards."""
    places = places_of(lengths)
    numbers = torch.arange(len(x), device=x.device)
    return x[numbers - 2 * places + lengths.repeat_interleave(lengths) - 1]


def time_steps(x: Tensor, lengths: Tensor) -> list[Tensor]:
    """The t-th rows of all sequences that are long enough, for each t; the longest one first."""
    order = lengths.argsort(descending=True, stable=True)
    starts = (lengths.cumsum(0) - lengths)[order]
    counts = [int((lengths > t).sum()) for t in range(int(lengths.max()))]
    return [x[starts[:count] + t] for t, count in enumerate(counts)]


def rows_of_steps(steps: list[Tensor], lengths: Tensor) -> Tensor:
    """The inverse of `time_steps`."""
    order = lengths.argsort(descending=True, stable=True)
    starts = (lengths.cumsum(0) - lengths)[order]
    places = torch.cat([starts[: len(step)] + t for t, step in enumerate(steps)])
    return torch.cat(steps)[places.argsort()]


def repeat_sequences(x: Tensor, lengths: Tensor, times: Tensor) -> Tensor:
    """Each sequence as often as `times` says."""
    parts = zip(x.split(lengths.tolist()), times.tolist())
    return torch.cat([part.repeat(count, *[1] * (x.dim() - 1)) for part, count in parts])


def sequence_softmax(x: Tensor, lengths: Tensor) -> Tensor:
    """Softmax over the rows of each sequence."""
    return torch.cat([F.softmax(part, dim=0) for part in x.split(lengths.tolist())])


def sequence_windows(x: Tensor, lengths: Tensor, size: int, start: int) -> Tensor:
    """Each row with its neighbours from `start` on, as (rows, size * width); 0 beyond the ends."""
    before, after = max(-start, 0), max(start + size - 1, 0)
    parts = [F.pad(part, (0, 0, before, after)) for part in x.split(lengths.tolist())]
    skipped = max(start, 0)
    windows = [part[skipped:].unfold(0, size, 1).mT for part in parts]
    return torch.cat(windows).reshape(-1, size * x.shape[1])


def sequence_slices(x: Tensor, lengths: Tensor, offset: Tensor, length: Tensor) -> Tensor:
    """`length` rows of each sequence, from `offset` on."""
    ends = zip(x.split(lengths.tolist()), offset.flatten().tolist(), length.flatten().tolist())
    return torch.cat([part[start : start + count] for part, start, count in ends])


def concatenated_sequences(sequences: list[Tensor], lengths: list[Tensor]) -> Tensor:
    """The i-th sequences of all one after the other, for each i."""
    split = [x.split(sizes.tolist()) for x, sizes in zip(sequences, lengths)]
    return torch.cat([part for together in zip(*split) for part in together])


def put(array: list[Tensor], place: int | Tensor, value: Tensor) -> None:
    """Sets an element of a list, or adds it at its end."""
    if int(place) == len(array):
        array.append(value)
    else:
        array[int(place)] = value
