"""How a batch is parted among replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.values import LoDTensor

_PLAIN = frozenset({"<f4", "<f8", "<i4", "<i8"})


def part_batch(name: str, value: Any, count: int) -> list[Any]:
    """`value` in `count` parts of neighbouring rows, or sequences where it has a LoD.

    The first parts get the remainder: 7 rows for 2 replicas are 4 and 3. Raises EnforceNotMet
    where there are fewer rows or sequences than replicas.
    """
    if count == 1:
        return [value]
    lengths = value.recursive_sequence_lengths() if isinstance(value, LoDTensor) else []
    if not isinstance(value, LoDTensor | torch.Tensor | np.ndarray):
        value = np.asarray(value)
    total = len(lengths[0]) if lengths else _rows(value)
    if total < count:
        raise EnforceNotMet(
            f"The batch of {name!r} has {total} {'sequences' if lengths else 'rows'}, fewer than "
            f"the {count} devices that share it: feed larger batches, or set CPU_NUM (for CPUs) "
            "or places to fewer devices"
        )
    if isinstance(value, np.ndarray):
        value = _one_memory(value)
    size, extra = divmod(total, count)
    ends = [(rank + 1) * size + min(rank + 1, extra) for rank in range(count)]
    starts = [0, *ends[:-1]]
    cut = _part_sequences if isinstance(value, LoDTensor) else _part_rows
    return [cut(value, lengths, start, end) for start, end in zip(starts, ends, strict=True)]


def _rows(value: Any) -> int:
    shape = value.shape() if callable(value.shape) else value.shape
    if not len(shape):
        raise EnforceNotMet("a number without dimensions can't be parted among devices")
    return int(shape[0])


def _part_rows(value: Any, lengths: list[list[int]], start: int, end: int) -> Any:
    return value[start:end]


def _one_memory(value: np.ndarray[Any, Any]) -> Any:
    """The array as a tensor where torch can use its memory, so that its parts stay neighbours."""
    plain = value.flags.writeable and value.flags.c_contiguous and value.dtype.str in _PLAIN
    return torch.from_numpy(value) if plain else value


def _part_sequences(value: LoDTensor, lengths: list[list[int]], start: int, end: int) -> LoDTensor:
    parts = []
    for level in lengths:
        parts.append(level[start:end])
        start, end = sum(level[:start]), sum(level[:end])
    part = LoDTensor(value.tensor[start:end])
    part.set_recursive_sequence_lengths(parts)
    return part
