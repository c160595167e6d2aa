"""What replicas exchange where all their values are in one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.selected_rows import SelectedRows


def total(values: Sequence[Tensor | SelectedRows]) -> Tensor | SelectedRows:
    """The sum over all replicas, in the order of ranks; sparse rows one after the other."""
    first = values[0]
    if isinstance(first, Tensor):
        result = first.clone(memory_format=torch.contiguous_format)
        for other in values[1:]:
            assert isinstance(other, Tensor)
            result += other
        return result
    return SelectedRows.sum([one for one in values if isinstance(one, SelectedRows)])


def each(value: Any, size: int) -> list[Any]:
    """A value that is the same for all, for each replica in memory of its own."""
    is_copied = isinstance(value, Tensor | SelectedRows)
    return [value.clone() if is_copied else value for _ in range(size)]


def whole(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all replicas one after the other; no copy where they already are.

    Numbers without dimensions become rows.
    """
    first, count = parts[0], parts[0].numel()
    if not first.dim():
        return torch.stack(list(parts))
    if count and first.is_contiguous():
        place, size = first.untyped_storage().data_ptr(), count * first.element_size()
        start = first.data_ptr()
        for number, part in enumerate(parts):
            if (
                part.untyped_storage().data_ptr() != place
                or part.data_ptr() != start + number * size
            ):
                break
        else:
            return first.as_strided((len(parts) * len(first), *first.shape[1:]), first.stride())
    return torch.cat(list(parts))


def stack(parts: Sequence[Tensor]) -> Tensor:
    """The values of all replicas one after the other; no copy where they already are."""
    return whole(parts).view(len(parts), *parts[0].shape)
