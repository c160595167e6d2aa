"""Updates of tables on the CPU that touch the rows of a sparse gradient and no others."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.kernels.rows import loops
from refluid.kernels.rows.order import spare_room

TAKEN = (torch.float32, torch.float64)


def takes(rows: Tensor, value: Tensor, *tables: Tensor) -> bool:
    """Whether the updates below take these rows and the tables that they change.

    Those are contiguous, equal in shape, as wide as `value`, and of its type: float32 or float64.
    """
    kind, shape = value.dtype, tables[0].shape
    if value.dim() != 2 or kind not in TAKEN or not value.is_cpu or len(shape) != 2:
        return False
    if value.shape != (rows.shape[0], shape[1]):
        return False
    for one in tables:
        if one.shape != shape or one.dtype is not kind:
            return False
        if not (one.is_cpu and one.is_contiguous()):
            return False
    return True


def descend_rows(param: Tensor, rows: Tensor, value: Tensor, rate: float) -> None:
    """param[rows[i]] -= rate * value[i] for each i, in place.

    param: [height, width], float32 or float64; value: [n, width] of its type; rows: int64 [n].
    Raises IndexError, and changes nothing, where the parameter lacks a row.
    """
    given = rows.contiguous(), value.contiguous()
    done(loops().descend_rows(param, *given, float(rate)), rows, param)


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
    spare, total = spare_room(2 * rows.shape[0]), value.new_empty(value.shape[1])
    done(loops().adam_rows(*given, numbers, spare, total), rows, param)


def adam_step_rows(
    param: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    power1: Tensor,
    power2: Tensor,
    rows: Tensor,
    value: Tensor,
    rate: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Powers one step on, then `adam_rows` with the rate corrected by them: all in one call.

    power1, power2, rate: [1], on the CPU; the rest as `adam_rows` has it. Raises IndexError where
    the parameter lacks a row, and then changes the powers alone.
    """
    state = power1, power2, rate
    given = param, moment1, moment2, rows.contiguous(), value.contiguous()
    spare, total = spare_room(2 * rows.shape[0]), value.new_empty(value.shape[1])
    one, two = betas
    numbers = one, two, 1.0 - one, 1.0 - two, epsilon
    done(loops().adam_step_rows(*given, *state, numbers, spare, total), rows, param)


def done(well: int, rows: Tensor, param: Tensor) -> None:
    """IndexError unless all rows of a gradient were rows of the parameter."""
    if not well:
        raise IndexError(
            f"the gradient has rows {int(rows.min())}..{int(rows.max())}, but the parameter has "
            f"{param.shape[0]} rows"
        )
