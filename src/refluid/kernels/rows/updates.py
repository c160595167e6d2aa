"""Updates of tables on the CPU that touch the rows of a sparse gradient and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows import loops
from refluid.kernels.rows.order import in_order, spare_room

TAKEN = (torch.float32, torch.float64)

Tensors = Sequence[Tensor]
_place, _size, _stride = Tensor.data_ptr, Tensor.size, Tensor.stride
_kind_of: Callable[[Tensor], Any] = attrgetter("dtype", "is_cpu")
_ONE = torch.Size([1])
# Threads share updates of so many numbers, in so many parts for each; numbers of a cache line.
_MUCH, _PARTS, _LINE = 3 * 2**14, 4, 16


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
    given = param, moment1, moment2, rows.contiguous(), value.contiguous()
    numbers = float(rate), *_numbers(betas, epsilon)
    if _is_much(value):
        order = torch.empty(rows.shape[0], dtype=torch.int32)
        well = in_order(given[3], param.shape[0], order, spare_room(rows.shape[0]))
        if well:
            _in_parts(given, numbers, order)
    else:
        spare, total = spare_room(2 * rows.shape[0]), value.new_empty(value.shape[1])
        well = loops().adam_rows(*given, numbers, spare, total)
    _done(well, rows, param)


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
    state, numbers = (power1, power2, rate), _numbers(betas, epsilon)
    if _is_much(value):
        corrected = np.empty(1)
        loops().step_rate(*state, numbers, corrected)
        adam_rows(param, moment1, moment2, rows, value, corrected.item(), betas, epsilon)
        return
    given = param, moment1, moment2, rows.contiguous(), value.contiguous()
    spare, total = spare_room(2 * rows.shape[0]), value.new_empty(value.shape[1])
    _done(loops().adam_step_rows(*given, *state, numbers, spare, total), rows, param)


def _numbers(betas: tuple[float, float], epsilon: float) -> tuple[float, ...]:
    one, two = betas
    return one, two, 1.0 - one, 1.0 - two, epsilon


def _is_much(value: Tensor) -> bool:
    """Whether threads share the update of these rows."""
    return value.numel() >= _MUCH and _threads() > 1


def _threads() -> int:
    """How many threads share an update."""
    from refluid.kernels.teams import team_size  # few programs have many rows

    return team_size()


def _in_parts(given: tuple[Tensor, ...], numbers: tuple[float, ...], order: Tensor) -> None:
    """Adam on rows in order, their parts shared among threads."""
    parts, width = _PARTS * _threads(), max(_LINE, given[0].shape[1])
    totals = given[0].new_empty((parts, width))  # no two of them in one cache line
    loops().adam_parts(np.zeros(1, np.int64), *given, numbers, order, totals)


class AdamTables:
    """Tables on the CPU and what Adam keeps for them, all of one type: as of `adam_step_rows`.

    `taken`: whether they are such that `step` can take them. One thread at a time may call it.
    """

    def __init__(
        self, params: Tensors, moments1: Tensors, moments2: Tensors, *powers: Tensors
    ) -> None:
        self._params, self._shapes = params, [one.shape for one in params]
        self._kept = [one for part in (params, moments1, moments2, *powers) for one in part]
        self._layout = _layout(self._kept)
        self._kind = params[0].dtype
        shapes = [*self._shapes * 3, *[_ONE] * len(params) * 2]
        self.taken = self._kind in TAKEN and all(
            one.shape == shape and one.is_contiguous() and _kind_of(one) == (self._kind, True)
            for one, shape in zip(self._kept, shapes, strict=True)
        )
        self.taken &= all(len(shape) == 2 for shape in self._shapes)
        # What the last gradients were; which of them to copy; what loops are told, and work with.
        self._seen: list[Any] = []
        self._copied: list[int] = []
        self._sizes: list[int] = []
        self._numel: list[int] = []
        self._room: tuple[Tensor, Tensor]

    def step(
        self,
        rows: Tensors,
        values: Tensors,
        rates: Tensors,
        betas: tuple[float, float],
        epsilon: float,
    ) -> bool:
        """`adam_step_rows` of all tables, one after the other, in one call.

        False, and nothing done, where it doesn't take them or their gradients: they aren't all of
        one type, say, or so large that threads had better share them one by one. Raises IndexError
        where a table lacks a row; those before it are updated.
        """
        if not self.taken or _layout(self._kept) != self._layout:
            return False
        given = [*rows, *values, *rates]
        seen = [*_layout(given), *map(_kind_of, given)]
        if seen != self._seen:
            if not self._looked_at(rows, values, rates):
                return False
            self._seen = seen
        size = _threads() if sum(self._numel) >= _MUCH else 1
        if size > 1 and max(self._numel) >= _MUCH:
            return False  # threads share each
        for n in self._copied:
            given[n] = given[n].contiguous()
        places = [*map(_place, self._kept), *map(_place, given), *self._sizes]
        table = np.array(places, np.int64).reshape(-1, len(self._params))
        lacking = self._stepped(table, _numbers(betas, epsilon), size)
        if lacking < len(rows):
            _done(False, rows[lacking], self._params[lacking])
        return True

    def _stepped(self, places: Any, numbers: tuple[float, ...], threads: int) -> int:
        """The step of all tables before the first that lacks a row; which one that is."""
        if threads == 1:
            return int(loops().adam_step_tables(places, numbers, *self._room))
        lacking = int(loops().lacking_table(places))
        spare, total = self._room
        spares = spare.new_empty((threads, len(spare)))
        totals = total.new_empty((threads, max(_LINE, len(total))))
        counters = np.zeros(1, np.int64), np.zeros(1, np.int64)
        loops().adam_table_parts(*counters, lacking, places, numbers, spares, totals)
        return lacking

    def _looked_at(self, rows: Tensors, values: Tensors, rates: Tensors) -> bool:
        """Whether it takes these, which is more than to see that they are as the last ones."""
        self._seen, self._copied, aparts = [], [], list[int]()
        kinds = [(torch.int64, True), (self._kind, True), (self._kind, True)]
        steps = zip(self._shapes, rows, values, rates, strict=True)
        for n, ((_, width), index, value, rate) in enumerate(steps):
            count = len(index)
            if [*map(_kind_of, (index, value, rate))] != kinds:
                return False
            if (index.shape, value.shape, rate.shape) != ((count,), (count, width), _ONE):
                return False
            if not index.is_contiguous():
                self._copied.append(n)
            apart, beside = value.stride()
            if beside != 1 or apart < width:
                self._copied.append(len(rows) + n)
                apart = width
            aparts.append(apart)
        heights, widths = zip(*self._shapes, strict=True)
        counts = [*map(len, rows)]
        self._sizes = [*heights, *widths, *counts, *aparts]
        self._numel = [*map(Tensor.numel, values)]
        self._room = spare_room(2 * max(counts)), values[0].new_empty(max(widths))
        return True


def _layout(tensors: Tensors) -> list[Any]:
    return [*map(_size, tensors), *map(_stride, tensors)]


def _done(well: int, rows: Tensor, param: Tensor) -> None:
    if not well:
        raise IndexError(
            f"the gradient has rows {int(rows.min())}..{int(rows.max())}, but the parameter has "
            f"{param.shape[0]} rows"
        )
