"""Room that malloc leaves for small things, whoever asks for it at the same time."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter

import pytest

from refluid.kernels import malloc


def test_several_threads_make_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is given back once, and the last thread's are kept."""
    numbers, failures = itertools.count(1), list[BaseException]()
    freed: Counter[int] = Counter()
    together = threading.Barrier(4)

    def free(block: int) -> None:
        freed[block] += 1
        time.sleep(0)

    def make() -> None:
        try:
            together.wait()
            for _ in range(30):
                malloc.make_room_for_small_things()
        except BaseException as error:
            failures.append(error)

    monkeypatch.setattr(malloc, "_malloc_and_free", lambda: (lambda _size: next(numbers), free))
    monkeypatch.setattr(malloc, "_between", [])
    monkeypatch.setattr(malloc, "_set", lambda _parameter, _value: True)
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(former)
    assert not failures
    kept = sum(number + 1 for _, number in malloc._SMALL)
    assert len(malloc._between) == kept
    assert len(freed) == next(numbers) - 1 - kept and set(freed.values()) == {1}
    assert freed.keys().isdisjoint(malloc._between)
