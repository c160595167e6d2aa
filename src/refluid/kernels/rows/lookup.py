"""Rows of a table by their numbers, with the next rows asked for ahead of time.

Recorded steps look up tables of sparse gradients by this: bit for bit what torch gives, sooner
where the table isn't in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows import loops

_KINDS = (torch.float32, torch.float64)
# Torch shares more than that among threads, each of which has misses of its own.
_SHARED = 2**20
# Fewer rows are there sooner than a compiled loop is called.
_FEW = 1024


def look_up(table: Tensor, ids: Tensor, *others: Any, **named: Any) -> Tensor:
    """table[ids], as `aten::embedding` has it, with its further arguments and errors.

    table: [height, width]; ids: int64 or int32 of any shape; the result is (*ids.shape, width).
    Raises IndexError where the table lacks a row.
    """
    if ids.numel() >= _FEW and _is_ours(table, ids):
        out = torch.empty((*ids.shape, table.shape[1]), dtype=table.dtype)
        flat = out.view(-1, table.shape[1])
        if loops().look_up(table, ids.view(-1), flat):
            return out
    found: Tensor = torch.embedding(table, ids, *others, **named)
    return found


def take_rows(table: Tensor, ids: Tensor, out: Tensor | None) -> Tensor:
    """table[ids] in `out`, [n, width] of the table's type, or in a new tensor; ids: int64 [n].

    Raises IndexError where the table lacks a row.
    """
    if out is None:
        return look_up(table, ids)
    if not (_is_ours(table, ids) and out.is_contiguous() and loops().look_up(table, ids, out)):
        torch.index_select(table, 0, ids, out=out)
    return out


def check_rows(table: Tensor, ids: Tensor) -> None:
    """Raises IndexError, as `aten::embedding` does, where the table lacks a row.

    table: [height, width]; ids: int64 or int32 of any shape, on the CPU.
    """
    numbers: Any = ids.numpy()
    # Without signs negative ones are the largest.
    unsigned = np.uint64 if numbers.itemsize == 8 else np.uint32
    if numbers.size and numbers.view(unsigned).max() >= table.shape[0]:
        torch.embedding(table, ids)


def _is_ours(table: Tensor, ids: Tensor) -> bool:
    if table.dtype not in _KINDS or ids.dtype is not torch.int64 or table.device.type != "cpu":
        return False
    if table.dim() != 2 or not (table.is_contiguous() and ids.is_contiguous()):
        return False
    watched = table.requires_grad and torch.is_grad_enabled()
    is_shared = ids.numel() * table.shape[1] > _SHARED and torch.get_num_threads() > 1
    return not watched and not is_shared
