"""Reading ahead keeps order, hands on errors, and stops its thread."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from examples.prefetch import Prefetch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "prefetch"]


def test_keeps_order() -> None:
    with Prefetch(range(100), depth=3) as items:
        assert list(items) == list(range(100))
    assert not threads()


def test_raises_the_error_after_the_items_before_it() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("broken file")

    seen = []
    with pytest.raises(ValueError, match="broken file"), Prefetch(source()) as items:
        for item in items:
            seen.append(item)
    assert seen == [1]


def test_leaving_early_stops_the_thread() -> None:
    with Prefetch(itertools.count(), depth=2) as items:
        assert next(iter(items)) == 0
    assert not threads()
