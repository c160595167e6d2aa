"""When steps, exchanges and waits for them began and ended, for those who draw them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class TimeSpan(NamedTuple):
    """kind: `step`, `exchange` or `wait`; times as of `time.perf_counter`."""

    kind: str
    begin: float
    end: float


_kept: list[list[TimeSpan]] = []


@contextmanager
def recording() -> Iterator[list[TimeSpan]]:
    """Within the block the list is filled."""
    found: list[TimeSpan] = []
    _kept.append(found)
    try:
        yield found
    finally:
        _kept.remove(found)


def note(kind: str, begin: float) -> None:
    """Something of that kind that began then has ended now."""
    if _kept:
        one = TimeSpan(kind, begin, time.perf_counter())
        for found in _kept:
            found.append(one)
