"""Adam on rows of several tables in one call, each table looked at once for all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows import loops
from refluid.kernels.rows.order import spare_room
from refluid.kernels.rows.updates import TAKEN, done

Tensors = Sequence[Tensor]
_place, _size, _stride = Tensor.data_ptr, Tensor.size, Tensor.stride
_kind_of: Callable[[Tensor], Any] = attrgetter("dtype", "is_cpu")
_ONE = torch.Size([1])


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
        one type, say. Raises IndexError where a table lacks a row; those before it are updated.
        """
        if not self.taken or _layout(self._kept) != self._layout:
            return False
        given = [*rows, *values, *rates]
        seen = [*_layout(given), *map(_kind_of, given)]
        if seen != self._seen:
            if not self._looked_at(rows, values, rates):
                return False
            self._seen = seen
        for n in self._copied:
            given[n] = given[n].contiguous()
        places = [*map(_place, self._kept), *map(_place, given), *self._sizes]
        table = np.array(places, np.int64).reshape(-1, len(self._params))
        one, two = betas
        numbers = one, two, 1.0 - one, 1.0 - two, epsilon
        lacking = loops().adam_step_tables(table, numbers, *self._room)
        if lacking >= 0:
            done(False, rows[lacking], self._params[lacking])
        return True

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
        self._room = spare_room(2 * max(counts)), values[0].new_empty(max(widths))
        return True


def _layout(tensors: Tensors) -> list[Any]:
    return [*map(_size, tensors), *map(_stride, tensors)]
