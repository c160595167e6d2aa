"""From which magnitude on numbers are cut, so that few levels hold those below well enough."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BINS = 2048
# Of so many numbers one may be cut.
MOST_CUT = 1000
Counts = npt.NDArray[np.float64]


class Threshold(Protocol):
    """What watches the values of a variable, batch by batch."""

    def see(self, values: Tensor) -> None:
        """One batch, of any shape."""

    def found(self) -> float:
        """The magnitude from which on values are cut; 0 where all were 0."""


class Greatest:
    """The greatest magnitude seen: nothing is cut."""

    def __init__(self) -> None:
        self._top = 0.0

    def see(self, values: Tensor) -> None:
        """One batch, of any shape."""
        if values.numel():
            self._top = max(self._top, float(values.abs().max()))

    def found(self) -> float:
        """The greatest magnitude."""
        return self._top


class LeastDivergence:
    """The magnitude by which levels tell least less than all magnitudes do (Kullback, Leibler).

    They are counted in `BINS` equal bins, whose width doubles where a batch has greater ones, so
    that no batch has to be kept. levels: how many whole numbers there are for magnitudes.
    """

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._top = 0.0
        self._counts: Counts = np.zeros(BINS)

    def see(self, values: Tensor) -> None:
        """One batch, of any shape."""
        sizes = values.detach().abs().float().reshape(-1)
        top = float(sizes.max()) if len(sizes) else 0.0
        if not top:
            self._counts[0] += len(sizes)
            return
        self._top = self._top or top
        while self._top < top:
            halves = self._counts.reshape(-1, 2).sum(1)
            self._counts = np.concatenate([halves, np.zeros(BINS // 2)])
            self._top *= 2
        self._counts += torch.histc(sizes, BINS, 0.0, self._top).double().numpy()

    def found(self) -> float:
        """The end of the bins that are best kept."""
        return self._top * best_end(self._counts, self._levels) / BINS


def best_end(counts: Counts, levels: int) -> int:
    """How many of the bins [n] to keep, from `levels` on, for the least divergence.

    What lies beyond counts as of the last bin kept; at most one number of `MOST_CUT` does:
    where nearly all are the same (a picture's background), divergence alone would keep only those.
    Zeros, which every number of bins holds exactly, don't count: most of what a rectifier gives.
    """
    counts = counts.copy()
    counts[0] = 0.0
    used = np.flatnonzero(counts)
    if not len(used):
        return len(counts)
    last = int(used[-1]) + 1
    kept = np.cumsum(counts)
    enough = int(np.searchsorted(kept, kept[-1] * (1 - 1 / MOST_CUT))) + 1
    ends = range(min(max(levels, enough), last), last + 1)
    return min(ends, key=lambda end: _divergence(counts, end, levels))


def _divergence(counts: Counts, end: int, levels: int) -> float:
    """Of the first `end` bins, and of what they are once those of one level can't be told apart."""
    kept = counts[:end].copy()
    level = np.arange(end) * levels // end
    some = kept > 0
    sums = np.bincount(level, kept, levels)
    bins = np.bincount(level, some, levels)
    told = np.where(some, (sums / np.maximum(bins, 1))[level], 0.0)
    kept[-1] += counts[end:].sum()
    if not told.sum():
        return np.inf
    there, seen = kept / kept.sum(), told / told.sum()
    if ((there > 0) & (seen == 0)).any():  # the last bin was empty, but for what was cut
        seen = np.maximum(seen, 1e-12)
    both = there > 0
    return float((there[both] * np.log(there[both] / seen[both])).sum())
