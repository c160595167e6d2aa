"""The largest numbers of threads, processes and places, and what is said of larger ones."""

from __future__ import annotations

import operator
from typing import Any

from refluid.core.errors import OutOfBounds

# Of one kind in one process; each takes memory, and no machine runs as many at once.
MOST_THREADS, MOST_PROCESSES, MOST_PLACES = 4096, 1024, 1024
# Fluid keeps such numbers in 32 bits.
MOST = 2**31 - 1


def whole_number(what: str, given: Any, most: int = MOST, least: int | None = None) -> int:
    """`given` as int. TypeError unless it is a whole number, OutOfBounds where it is."""
    try:
        whole = isinstance(given, float) and given.is_integer()
        number = int(given) if whole else operator.index(given)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {given!r}") from None
    if number > most or (least is not None and number < least):
        bounds = f"at most {most}" if least is None else f"{least} to {most}"
        raise OutOfBounds(f"{what} is {bounds}, not {number}")
    return number
