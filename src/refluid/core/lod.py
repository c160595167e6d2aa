"""Level-of-detail information: sequence lengths and offsets, and whether they fit the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

Lod = list[list[int]]


def lengths_to_offsets(lengths: Iterable[Iterable[int]]) -> Lod:
    """`[[2, 1], [2, 3, 1]]` -> `[[0, 2, 3], [0, 2, 5, 6]]`."""
    return [list(accumulate(map(int, level), initial=0)) for level in lengths]


def offsets_to_lengths(lod: Iterable[Iterable[int]]) -> Lod:
    """`[[0, 2, 3], [0, 2, 5, 6]]` -> `[[2, 1], [2, 3, 1]]`.

    Fluid's recurrent operators note row numbers as LoD; differences below zero wrap as its do.
    """
    return [[(end - start) % 2**64 for start, end in pairwise(level)] for level in lod]


def lod_error(lod: Sequence[Sequence[int]], height: int | None) -> str | None:
    """Why `lod` (offsets) cannot describe data of `height` rows; None if it can.

    Each level starts at 0 and does not decrease; its end is the number of sequences of the next
    level, or `height` at the last one (None: not known, not checked).
    """
    for number, level in enumerate(lod):
        where = f"level {number}"
        if not level or level[0] != 0:
            return f"{where} must start at 0 but is {_brief(level)}"
        if any(start > end for start, end in pairwise(level)):
            return f"{where} must not decrease but is {_brief(level)}"
        last = number == len(lod) - 1
        expected = height if last else len(lod[number + 1]) - 1
        if expected is not None and level[-1] != expected:
            below = "rows of data" if last else f"sequences at level {number + 1}"
            return f"{where} covers {level[-1]} but there are {expected} {below}"
    return None


def _brief(level: Sequence[int]) -> str:
    shown = ", ".join(map(str, level[:12]))
    return f"[{shown}, ... {len(level)} offsets]" if len(level) > 12 else f"[{shown}]"
