"""Row numbers put in order, and values of equal rows added up."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.kernels.rows.order import in_order, merge, spare_room

_SORTED = (torch.float32, torch.float64)


def ascending(rows: Tensor, height: int) -> Tensor:
    """Positions in `rows` by ascending row, int32 [n]; equal rows as they come.

    rows: int64 [n] on the CPU. Raises IndexError where one isn't in [0, height).
    """
    found = torch.empty(len(rows), dtype=torch.int32)
    if not in_order(rows.contiguous(), height, found, spare_room(len(rows))):
        raise IndexError(f"rows {int(rows.min())}..{int(rows.max())} of a table of {height} rows")
    return found


def merge_rows(rows: Tensor, value: Tensor, height: int) -> tuple[Tensor, Tensor]:
    """Each row once, ascending, int64 [m], and the sums of its values, [m, ...].

    rows: int64 [n]; value: [n, ...] of any type and device. Values of one row are added in the
    order in which they come.
    """
    found = _by_sorting(rows, value, height)
    if found is not None:
        return found
    unique, where = torch.unique(rows, return_inverse=True)
    if unique.numel() == rows.numel():
        return unique, value[torch.argsort(rows)]
    sums = value.new_zeros((unique.numel(), *value.shape[1:]))
    return unique, sums.index_add_(0, where, value)


def _by_sorting(rows: Tensor, value: Tensor, height: int) -> tuple[Tensor, Tensor] | None:
    """`merge_rows` in compiled code, which the processor runs; None where that doesn't do."""
    if value.dtype not in _SORTED or value.dim() != 2 or not value.is_cpu:
        return None
    if len(value) != len(rows):
        return None
    unique, sums = torch.empty_like(rows), torch.empty(value.shape, dtype=value.dtype)
    given = rows.contiguous(), height, value.contiguous()
    count = merge(*given, unique, sums, spare_room(2 * len(rows)))
    return None if count < 0 else (unique[:count], sums[:count])
