"""What a recorded step was made for, and whether it fits."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter, call, is_
from typing import Any

import torch
from torch import Tensor

from refluid.core.scope import Cell
from refluid.runtime.code import Code
from refluid.runtime.recorded.trial import Trial

_value_of, _kind = attrgetter("value"), attrgetter("dtype")
_size, _stride = Tensor.size, Tensor.stride
Meta = tuple[torch.Size, torch.dtype, tuple[int, ...]] | type


class Recorded:
    """One recorded step: its code, and what it was recorded for.

    renewals: how often its variables were others of the same shapes and types.
    """

    def __init__(self, code: Code, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        self.code = code
        self.trial: Trial | None = None
        self.renewals = 0
        self.feeds = [meta(feed) for feed in feeds]
        self.state = [meta(cell.value) for cell in cells]
        self._remember(cells)

    def fits(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> bool:
        """Whether feeds and variables are of the shapes, types and layouts of the recording."""
        if not self._fits_feeds(feeds):
            return False
        same = all(map(is_, map(_value_of, cells), map(call, self._seen)))
        return same or self._fits_anew(cells)

    def _fits_feeds(self, feeds: Sequence[Tensor]) -> bool:
        layouts = zip(map(_size, feeds), map(_kind, feeds), map(_stride, feeds), strict=True)
        return [*layouts] == self.feeds

    def _fits_anew(self, cells: Sequence[Cell]) -> bool:
        if [meta(cell.value) for cell in cells] != self.state:
            return False
        self._remember(cells)
        self.renewals += 1
        return True

    def _remember(self, cells: Sequence[Cell]) -> None:
        self._seen: list[Callable[[], Any]] = [_weak(cell.value) for cell in cells]


def meta(value: Any) -> Meta:
    """Shape, element type and strides of a tensor; the type of anything else."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.stride()
    return type(value)


def _weak(value: Any) -> Callable[[], Any]:
    if isinstance(value, Tensor):
        return weakref.ref(value)
    # Another object of this kind is looked at anew each time, None is the same everywhere.
    return (lambda: None) if value is None else object
