"""What both sides are given, and what each says. Read in paddle's environment too: NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Values, and lengths of sequences per level.
Tensor = tuple[Array, list[list[int]]]


@dataclass
class Case:
    """A program with its inputs. origin: the recording. change: what is not as recorded.

    declared: asks for the shapes that `fetches` are declared to have, and runs nothing. later: what
    is fed in further steps, one after the other. kept: persistable variables that are read at the
    end.
    """

    origin: str
    change: str
    operators: tuple[str, ...]
    program: bytes
    feeds: dict[str, Tensor]
    state: dict[str, Tensor]
    fetches: tuple[str, ...]
    declared: bool = False
    later: tuple[dict[str, Tensor], ...] = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        change = f", {self.change}" if self.change else ""
        return f"{self.origin} ({' '.join(self.operators)}){change}"


@dataclass
class Outcome:
    """The fetched tensors of all steps and those kept, None for what is no tensor, or declared
    shapes; or the error. rounding: by how much each tensor may differ because inputs are rounded.
    """

    tensors: list[Tensor | None] = field(default_factory=list)
    error: str = ""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rounding: list[float] = field(default_factory=list)


def differences(one: Outcome, other: Outcome, rtol: float) -> list[str]:
    """What the fetched tensors of two runs differ in, in words."""
    if len(one.tensors) != len(other.tensors):
        return [f"{len(one.tensors)} and {len(other.tensors)} results"]
    found = []
    for number, pair in enumerate(zip(one.tensors, other.tensors, strict=True)):
        if pair[0] is not None and pair[1] is not None:
            allowed = one.rounding[number] if one.rounding else 0.0
            what = _difference(pair[0], pair[1], rtol, allowed)
            found += [f"fetch {number}: {what}"] if what else []
    for name, shape in one.shapes.items():
        if name in other.shapes and not _alike(shape, other.shapes[name]):
            found.append(f"{name} is declared {list(shape)} and {list(other.shapes[name])}")
    return found


def _alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Equal but for how an unknown size is written, and for a number without dimensions."""
    a, b = ([max(size, -1) for size in shape] for shape in (one, other))
    return a == b or (a == [1] and not b)


def _difference(one: Tensor, other: Tensor, rtol: float, rounding: float = 0.0) -> str:
    (a, lengths), (b, others) = one, other
    if a.shape == (1,) and b.shape == ():
        b = b.reshape(1)  # what Fluid 1.8 reduced to one number has a dimension
    if a.shape != b.shape:
        return f"shape {a.shape} and {b.shape}"
    if a.dtype != b.dtype:
        return f"{a.dtype} and {b.dtype}"
    if [list(level) for level in lengths] != [list(level) for level in others]:
        return f"sequences {lengths} and {others}"
    if a.dtype.kind != "f":
        return "" if np.array_equal(a, b) else f"{np.sum(a != b)} of {a.size} numbers"
    largest = np.nan_to_num(np.abs(b), posinf=0.0).max(initial=1e-30)
    if np.allclose(a, b, rtol=rtol, atol=largest * rtol / 10 + rounding, equal_nan=True):
        return ""
    return f"numbers, by up to {np.nanmax(np.abs(a - b)) / largest:.1e} of the largest"
