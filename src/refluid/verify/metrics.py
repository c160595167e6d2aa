"""How far one value is from another, and the bounds it must keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refluid.verify.recordings import Array

OPERATOR_BOUND = 1e-5
STEP_BOUND = 1e-4
DIGEST_BOUND = 1e-3
FLOOR = 1e-7
# What errors of a variable that is 0 are relative to.
NOTHING = 1e-30
# Elements that are worked on at once: what fits into a processor's cache.
PART = 2**15
# Changes are alike if their mean is so much of the largest; of fewer elements that says nothing.
ALIKE, FEW = 0.6, 16


@dataclass(frozen=True)
class Deviation:
    """Relative error of one result of one step, and the bound it must keep.

    size, wanted_size, elements: the root mean square that a variable has, the one in Fluid, and of
    how many.
    wanted: its digest in Fluid. updated: the parameter that is updated together with it.
    turned: what an element changes by if rounding turns its update round (`turned`).
    counts: a fetch that counts, as accuracy does, and so jumps where others move.
    """

    step: int
    label: str
    error: float
    bound: float
    fetch: bool = False
    size: float = 0.0
    wanted_size: float = 0.0
    elements: int = 0
    counts: bool = False
    wanted: tuple[float, ...] = ()
    updated: str = ""
    turned: float = 0.0

    @property
    def key(self) -> tuple[int, str]:
        return self.step, self.label


def relative_error(actual: Array, expected: Array) -> float:
    """max |a - b| / (|b| + mean |b|), beyond 1e-7 of rounding; inf where NaNs differ."""
    if actual.size == 0 or np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"):
        return 0.0
    a, b = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not finite.any():
        return float("inf")
    a, b = a[finite], b[finite]
    scale = np.abs(b) + np.abs(b).mean()
    excess = np.maximum(np.abs(a - b) - FLOOR, 0.0)
    scale = np.where(scale > 0, scale, np.abs(a))
    errors = np.divide(excess, scale, out=np.zeros_like(a), where=excess > 0)
    return float(np.where(np.isnan(errors), np.inf, errors).max())


def digest(array: Array) -> Array:
    """Sum, sum of magnitudes, sum of squares, first, middle and last element."""
    flat = array.ravel()
    sums = np.zeros(3)
    for start in range(0, flat.size, PART):
        part = flat[start : start + PART].astype(np.float64)
        sums += part.sum(), np.abs(part).sum(), np.square(part).sum()
    return np.array([*sums, flat[0], flat[flat.size // 2], flat[-1]])


def digest_error(got: Array, want: Array, size: int) -> float:
    """Largest error of a digest: sums relative to their terms, elements to themselves or the root
    mean square. Each element may be off by 1e-7, and by 1e-7 of itself; by ten times that where
    all of them are less, which is nothing but rounding."""
    typical = np.sqrt(want[2] / size)
    floor = FLOOR if typical > FLOOR else 10 * FLOOR
    scale = np.array([want[1], want[1], want[2], *np.maximum(np.abs(want[3:]), typical)])
    off = floor * (1.0 + typical)
    sums = size * off
    slack = np.array([sums, sums, sums * (2.0 * typical + off), *floor * (1.0 + scale[3:])])
    excess = np.maximum(np.abs(got - want) - slack, 0.0)
    return float(np.max(excess / np.maximum(scale, NOTHING)))


def change_bound(found: Array, start: Array | None) -> float:
    """The bound of a variable's digest: a thousandth of itself, or of its change if that is less.

    start: the variable before the run, where there was one of that shape.
    """
    if start is None or start.shape != found.shape or found.dtype.kind != "f":
        return DIGEST_BOUND
    value, before = found.astype(np.float64), start.astype(np.float64)
    whole = np.abs(value).sum()
    return DIGEST_BOUND * min(1.0, np.abs(value - before).sum() / whole) if whole else DIGEST_BOUND


def turned(found: Array, start: Array | None) -> float:
    """Twice the largest change of an element where nearly all changed as much; 0 elsewhere.

    Adam's first steps are so: an element's gradient of 1e-9 counts as much as one of 1, and where
    rounding turns its sign the update has the other one.
    """
    if found.dtype.kind != "f" or found.size < FEW:
        return 0.0
    before = 0.0 if start is None or start.shape != found.shape else start.astype(np.float64)
    change = np.abs(found.astype(np.float64) - before)
    return 2.0 * float(change.max()) if change.mean() > ALIKE * change.max() else 0.0


def root_mean_square(sums: Array, size: int) -> float:
    """Of an array of `size` elements, by its digest."""
    return float(np.sqrt(sums[2] / size)) if size else 0.0
