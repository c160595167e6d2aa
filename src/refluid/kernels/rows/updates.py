"""Updates of tables on the CPU that touch the rows of a sparse gradient and no others."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.kernels.rows import loops
from refluid.kernels.rows.order import spare_room

_TAKEN = (torch.float32, torch.float64)


def takes(rows: Tensor, value: Tensor, *tables: Tensor) -> bool:
    """Whether the updates below take these rows and the tables that they change.

    Those are contiguous, equal in shape, as wide as `value`, and of its type: float32 or float64.
    """
    if value.dim() != 2 or value.dtype not in _TAKEN or not value.is_cpu:
        return False
    count, width = value.shape
    equal = all(one.shape == tables[0].shape for one in tables)
    return equal and count == len(rows) and all(_is_like(one, value, width) for one in tables)


def _is_like(table: Tensor, value: Tensor, width: int) -> bool:
    alike = table.dtype is value.dtype and table.is_cpu and table.is_contiguous()
    return alike and table.dim() == 2 and table.shape[1] == width


def descend_rows(param: Tensor, rows: Tensor, value: Tensor, rate: float) -> None:
    """param[rows[i]] -= rate * value[i] for each i, in place.

    param: [height, width], float32 or float64; value: [n, width] of its type; rows: int64 [n].
    Raises IndexError, and changes nothing, where the parameter lacks a row.
    """
    given = rows.contiguous(), value.contiguous()
    _done(loops().descend_rows(param, *given, float(rate)), rows, param)


def adam_rows(
    param: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    rows: Tensor,
    value: Tensor,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Adam with `rate` as it is on these rows, values of equal ones added up first, in place.

    param, moment1, moment2: [height, width], float32 or float64; value: [n, width] of their type;
    rows: int64 [n]. Raises IndexError, and changes nothing, where the parameter lacks a row.
    """
    one, two = betas
    numbers = float(rate), one, two, 1.0 - one, 1.0 - two, epsilon
    given = param, moment1, moment2, rows.contiguous(), value.contiguous()
    spare, total = spare_room(2 * len(rows)), value.new_empty(value.shape[1])
    _done(loops().adam_rows(*given, numbers, spare, total), rows, param)


def _done(well: int, rows: Tensor, param: Tensor) -> None:
    if not well:
        raise IndexError(
            f"the gradient has rows {int(rows.min())}..{int(rows.max())}, but the parameter has "
            f"{param.shape[0]} rows"
        )
