"""Whether two runs of a program gave the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzzing.running import Trace


def same_bits(one: Any, other: Any) -> bool:
    """Whether arrays are equal bit for bit; any NaN equals any other."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind != "f":
        return False
    both = np.isnan(one) & np.isnan(other)
    left, right = (np.where(both, 0, array).astype(one.dtype) for array in (one, other))
    return left.tobytes() == right.tobytes()


def differences(oracle: Trace, found: Trace) -> Iterator[str]:
    """What is not the same bit for bit: step by step, then what was left."""
    yield from _compare(oracle, found, lambda key, a, b: same_bits(a, b))


Same = Callable[[Any, Any, Any], bool]
# Numbers of one program by (step, fetch) or name.
Spread = dict[Any, float]


def beyond_rounding(oracle: Trace, found: Trace, spread: Spread) -> Iterator[str]:
    """What differs by more than RELATIVE of the largest, and TIMES what nudged inputs do.

    Where one overflows and the other nearly does, the order in which numbers are added decides it;
    nothing is compared from there on, nor from where the oracle has NaN that the other has not.
    """
    over = False

    def same(key: Any, a: Any, b: Any) -> bool:
        nonlocal over
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind != "f":
            return over or same_bits(a, b)
        over = over or _overflows(a, b)
        return over or _distance(a, b) <= RELATIVE * _largest(a) + TIMES * spread.get(key, 0.0)

    yield from _compare(oracle, found, same)


def _overflows(one: Any, other: Any) -> bool:
    """Whether an element is infinite or NaN in one, and nearly infinite in the other; or whether
    the first has NaN in other places: where infinities meet is up to the order, too."""
    finite = np.isfinite(one), np.isfinite(other)
    if np.isnan(one).any() and (finite[0] != finite[1]).any():
        return True
    left, right = np.abs(other[finite[1] & ~finite[0]]), np.abs(one[finite[0] & ~finite[1]])
    return bool((left > HUGE).any() or (right > HUGE).any())


def widen(spread: Spread, oracle: Trace, nudged: Trace) -> None:
    """Adds how far a nudged run is from the one that is not."""

    def note(key: Any, a: Any, b: Any) -> bool:
        apart = _distance(a, b) if a.shape == b.shape else np.inf
        spread[key] = max(spread.get(key, 0.0), apart)
        return True

    list(_compare(oracle, nudged, note))


RELATIVE, TIMES, HUGE = 1e-5, 30.0, 1e30


def _distance(a: Any, b: Any) -> float:
    """The largest difference; infinite where only one is finite."""
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype("float64") - b.astype("float64"))
    apart[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return float(np.nan_to_num(apart, nan=np.inf).max()) if apart.size else 0.0


def _largest(a: Any) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def _compare(oracle: Trace, found: Trace, same: Same) -> Iterator[str]:
    for number, (right, got) in enumerate(zip(oracle.steps, found.steps, strict=True)):
        if isinstance(right, str) or isinstance(got, str):
            if right != got:
                yield f"step {number}: {_told(got)} instead of {_told(right)}"
            continue
        for place, (wanted, values) in enumerate(zip(right, got, strict=True)):
            label = f"step {number}, fetch {place}"
            # What several places were fed alike is compared with what one place gave.
            alike = len(wanted) == 1 < len(values)
            each = wanted * len(values) if alike else wanted
            for (a, a_lod), (b, b_lod) in zip(each, values, strict=True):
                if alike and len(a_lod) < len(b_lod):  # gathered rows
                    continue
                if a_lod != b_lod:
                    yield f"{label}: LoD {b_lod} instead of {a_lod}"
                elif not same((number, place), a, b):
                    yield f"{label}: {_apart(a, b)}"
    for name, value in oracle.state.items():
        if name not in found.state:
            yield f"{name} is missing in the end"
        elif not same(name, value, found.state[name]):
            yield f"{name} in the end: {_apart(value, found.state[name])}"


def _told(one: Any) -> str:
    if isinstance(one, str):
        return one
    return f"values of shapes {[list(value.shape) for [(value, _), *_] in one]}"


def _apart(one: Any, other: Any) -> str:
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}"
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype("float64") - other.astype("float64"))
        scale = np.abs(one.astype("float64")).max() if one.size else 0.0
        worst = np.nanmax(apart) if apart.size and not np.isnan(apart).all() else np.nan
    return f"{worst:.3g} apart where the largest is {scale:.3g}"
