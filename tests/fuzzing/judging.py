"""Whether two runs of a program gave the same."""

from __future__ import annotations

from collections.abc import Iterator
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
    for number, (right, got) in enumerate(zip(oracle.steps, found.steps, strict=True)):
        if isinstance(right, str) or isinstance(got, str):
            if right != got:
                yield f"step {number}: {_told(got)} instead of {_told(right)}"
            continue
        for place, ((a, a_lod), (b, b_lod)) in enumerate(zip(right, got, strict=True)):
            if a_lod != b_lod:
                yield f"step {number}, fetch {place}: LoD {b_lod} instead of {a_lod}"
            elif not same_bits(a, b):
                yield f"step {number}, fetch {place}: {_apart(a, b)}"
    for name, right_value in oracle.state.items():
        if name not in found.state or not same_bits(right_value, found.state[name]):
            got_value = found.state.get(name)
            text = "missing" if got_value is None else _apart(right_value, got_value)
            yield f"{name} in the end: {text}"


def _told(one: Any) -> str:
    return one if isinstance(one, str) else f"values of shapes {[list(v.shape) for v, _ in one]}"


def _apart(one: Any, other: Any) -> str:
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}"
    with np.errstate(all="ignore"):
        apart = np.abs(one.astype("float64") - other.astype("float64"))
        scale = np.abs(one.astype("float64")).max() if one.size else 0.0
        worst = np.nanmax(apart) if apart.size and not np.isnan(apart).all() else np.nan
    return f"{worst:.3g} apart where the largest is {scale:.3g}"
