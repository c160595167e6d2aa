"""Which of two ways is the faster one, for each size by itself: found out where it is computed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# From which speed on loops of refluid's own are taken: what they gain is more where others use the
# processor's caches, too.
GAIN = 1.03
# How many sizes are tried; in how many turns at least, and at most where they don't agree.
_MOST, _LEAST, _TURNS = 4096, 2, 7


class FasterWay:
    """A function of tensors by refluid's loops or by the usual kernels.

    The first calls are the usual ones. In the last of them both ways are timed in turns, and then
    it is decided for good: nothing is computed for the sake of the trial alone but that.
    told: for all, instead of what would be measured.
    """

    calls = 3

    def __init__(self, ours: Callable[..., Tensor], usual: Callable[..., Tensor]) -> None:
        self.told: bool | None = None
        self._ours, self._usual = ours, usual
        # Whether it is ours, or how many calls there were.
        self._known: dict[Any, bool | int] = {}

    def __call__(self, *given: Any) -> Tensor:
        key = torch.get_num_threads(), *map(_size, given)
        known = self._known.get(key, 0) if self.told is None else self.told
        if known is True:
            return self._ours(*given)
        if known is not False and (known or len(self._known) < _MOST):
            self._known[key] = known + 1 if known + 1 < self.calls else self._is_ours(given)
        return self._usual(*given)

    def _is_ours(self, given: tuple[Any, ...]) -> bool:
        return is_faster(self._ours, self._usual, given)


def is_faster(ours: Callable[..., object], usual: Callable[..., object], given: Any) -> bool:
    """Whether ours is, of these arguments, in most turns: others may have the processor in some."""
    ratios: list[float] = []
    while len(ratios) < _TURNS and (len(ratios) < _LEAST or _split(ratios)):
        ratios.append(_timed(usual, given) / _timed(ours, given))
    return statistics.median(ratios) >= GAIN


def _split(ratios: Sequence[float]) -> bool:
    return len({ratio >= GAIN for ratio in ratios}) > 1


def _size(given: Any) -> Any:
    """What the time follows from: shape, and which numbers lie side by side."""
    if isinstance(given, Tensor):
        return tuple(given.shape), given.stride(-1)
    return given if given is None else tuple(given)


def _timed(way: Callable[..., object], given: tuple[Any, ...]) -> float:
    # What one thread computes by itself is the same whatever others do to the clock.
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    start = clock()
    way(*given)
    return clock() - start
