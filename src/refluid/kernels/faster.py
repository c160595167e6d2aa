"""Which of two ways is the faster one, for each size by itself: found out where it is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# From which speed on loops of refluid's own are taken: what they gain is more where others use the
# processor's caches, too.
GAIN = 1.03
# How many sizes are tried.
_MOST = 4096


class FasterWay:
    """A function of tensors by refluid's loops or by the usual kernels, to which it is a `rival`.

    The first calls are the usual ones, and timed. In the last of them the other way is timed, too,
    and then it is decided for good: nothing is computed for the sake of the trial alone but that.
    told: for all, instead of what would be measured.
    """

    calls = 3

    def __init__(self, ours: Callable[..., Tensor], usual: Callable[..., Tensor]) -> None:
        self.told: bool | None = None
        self._ours, self._usual = ours, usual
        # Whether it is ours, or the seconds that the first calls took.
        self._known: dict[Any, bool | list[float]] = {}

    def __call__(self, *given: Any) -> Tensor:
        key = torch.get_num_threads(), *map(_size, given)
        known = self._known.get(key) if self.told is None else self.told
        if isinstance(known, bool):
            return self._ours(*given) if known else self._usual(*given)
        return self._try(key, given)

    def _try(self, key: Any, given: tuple[Any, ...]) -> Tensor:
        if key not in self._known and len(self._known) >= _MOST:
            return self._usual(*given)
        took = self._known.setdefault(key, [])
        found, seconds = _timed(self._usual, given)
        if isinstance(took, bool):  # another thread has decided meanwhile
            return found
        took.append(seconds)
        if len(took) >= self.calls:
            ours = min(_timed(self._ours, given)[1] for _ in range(2))
            self._known[key] = min(took) >= GAIN * ours
        return found


def _size(given: Any) -> Any:
    """What the time follows from: shape, and which numbers lie side by side."""
    if isinstance(given, Tensor):
        return tuple(given.shape), given.stride(-1)
    return given if given is None else tuple(given)


def _timed(way: Callable[..., Tensor], given: tuple[Any, ...]) -> tuple[Tensor, float]:
    # What one thread computes by itself is the same whatever others do to the clock.
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    start = clock()
    found = way(*given)
    return found, clock() - start
