"""Sequences one after another as rows, and the same side by side, padded to one length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from refluid.core.offsets import Offsets

# Sequences of more elements, in the mean, are copied one by one.
_LONG = 2048


def _is_number(fill: Tensor | float) -> bool:
    return not isinstance(fill, Tensor) or (fill.dim() == 0 and fill.is_floating_point())


def take_rows(rows: Tensor, index: Tensor) -> Tensor:
    """The rows (n, ...) that `index` names, shape (*index.shape, ...)."""
    if rows.dim() == 2:
        return torch.embedding(rows, index)
    flat = rows.reshape(rows.shape[0], -1) if rows.numel() else rows.flatten(1)
    return torch.embedding(flat, index).reshape(*index.shape, *rows.shape[1:])


def ranges(starts: Tensor, sequences: Offsets) -> Tensor:
    """For each row of `sequences` where it lies when sequence i is read from `starts[i]` on."""
    owners = sequences.owners(starts.device)
    return starts[owners] + sequences.positions(starts.device)


def inside(sequences: Offsets, length: int, device: torch.device) -> Tensor:
    """Which places of (sequences, length) belong to a sequence, bool."""
    places = torch.arange(length, device=device)
    return places < sequences.length_tensor(device).unsqueeze(1)


def pad_rows(rows: Tensor, sequences: Offsets, length: int, fill: Tensor | float = 0.0) -> Tensor:
    """(rows, ...) -> (sequences, length, ...) with `fill` after the end of each sequence.

    May share the memory of `rows`.
    """
    count, rest = sequences.count, rows.shape[1:]
    if sequences.all_are(length):
        return rows.reshape(count, length, *rest)
    many = rows.device.type == "cpu" and rows.numel() > _LONG * count and not rows.requires_grad
    if many and length == sequences.longest and _is_number(fill):
        return pad_sequence(list(rows.split_with_sizes(sequences.lengths)), True, float(fill))
    filled = fill.to(rows.dtype) if isinstance(fill, Tensor) else rows.new_full((), fill)
    index = sequences.once(_padded, length, device=rows.device)
    return take_rows(torch.cat((rows, filled.expand(1, *rest))), index)


def _padded(sequences: Offsets, length: int) -> npt.NDArray[np.int64]:
    """What follows the end is the row after the last one."""
    place = np.arange(length)
    found = sequences.array[:-1, None] + place
    return np.where(place < sequences.gaps()[:, None], found, sequences.total)


def unpad_rows(padded: Tensor, sequences: Offsets) -> Tensor:
    """(sequences, length, ...) -> (rows, ...), without what follows the end of each sequence.

    May share the memory of `padded`.
    """
    count, length = padded.shape[:2]
    flat = padded.reshape(count * length, *padded.shape[2:])
    if sequences.all_are(length):
        return flat
    return take_rows(flat, sequences.once(_unpadded, length, device=padded.device))


def _unpadded(sequences: Offsets, length: int) -> npt.NDArray[np.int64]:
    skipped = np.arange(len(sequences)) * length - sequences.array[:-1]
    return np.arange(sequences.total) + np.repeat(skipped, sequences.gaps())
