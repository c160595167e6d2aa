"""Worker processes: what they send, what kills them, what they leave behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid.feed import WorkerDied
from refluid.feed.errors import RemoteTraceback
from refluid.feed.workers import Seeds, Stream, Tasks
from refluid.feed.workers.packing import pack, unpack
from tests.choices import crossed
from tests.feed.leftovers import assert_nothing_left

LARGE = 100_000
SEEDS = Seeds(5, 6)


def _arrays(count: int, size: int = LARGE) -> Any:
    def items() -> Iterator[Any]:
        for number in range(count):
            yield np.full(size, number, np.float32), {"number": number}

    return items


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        (1, [2.5, b"bytes"], {"k": None}),
        [np.arange(12).reshape(3, 4), np.zeros((0, 5), np.int64), np.array(7.5)],
        np.arange(20)[::3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["a", "bc"]),
        np.array([True, False]),
    ],
)
def test_packing(value: Any) -> None:
    packed = pack(value)
    data = bytearray(packed.size)
    packed.write(memoryview(data))
    again = unpack(data)
    if isinstance(value, np.ndarray | list):
        for one, other in zip(value, again, strict=True):
            np.testing.assert_array_equal(one, other)
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
    else:
        assert again == value


@pytest.mark.parametrize(
    ("size", "lend"), crossed([3, LARGE], [0, 2, 100], fast=[(3, 0), (LARGE, 2), (LARGE, 100)])
)
def test_stream_gives_all_items_in_order(size: int, lend: int) -> None:
    stream = Stream("numbers", [_arrays(20, size)], 2, rotate=True, lend=lend)
    for number, (array, names) in enumerate(stream.items()):
        assert names == {"number": number}
        np.testing.assert_array_equal(array, np.full(size, number, np.float32))
        array += 1  # it is the consumer's


def test_kept_items_keep_their_values() -> None:
    kept = [array for array, _ in Stream("kept", [_arrays(30)], 2, rotate=True, lend=3).items()]
    assert [int(array[-1]) for array in kept] == list(range(30))


def test_areas_are_used_again() -> None:
    seen = set()
    for array, _ in Stream("reused", [_arrays(50)], 2, rotate=True, lend=4).items():
        seen.add(array.__array_interface__["data"][0])
        del array
    assert len(seen) <= 6


def test_growing_items() -> None:
    def items() -> Iterator[Any]:
        for number in range(1, 12):
            yield np.full(number * LARGE, number)

    found = Stream("growing", [items], 2, rotate=True, lend=2).items()
    assert [(len(one) // LARGE, int(one[-1])) for one in found] == [(n, n) for n in range(1, 12)]


def test_rotation_is_always_the_same() -> None:
    makes = [lambda n=n: iter([(n, i) for i in range(n + 1)]) for n in range(3)]
    expected = [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)]
    for _ in range(3):
        assert list(Stream("turns", makes, 1, rotate=True).items()) == expected
    assert sorted(Stream("any", makes, 1, rotate=False).items()) == sorted(expected)


def test_an_error_arrives_after_the_items_with_its_traceback() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("broken file")

    found = Stream("failing", [items], 3, rotate=True).items()
    assert next(found) == 1
    with pytest.raises(KeyError, match="broken file") as caught:
        next(found)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in items" in str(caught.value.__cause__)


def test_an_error_that_pickle_refuses() -> None:
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def items() -> Iterator[int]:
        raise Odd(1, 2)
        yield

    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        list(Stream("failing", [items], 3, rotate=True).items())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_is_named(how: signal.Signals) -> None:
    def items() -> Iterator[int]:
        yield os.getpid()
        time.sleep(600)

    found = Stream("words", [items, lambda: iter(())], 1, rotate=False).items()
    process = next(found)
    os.kill(process, how)
    with pytest.raises(
        WorkerDied, match=rf"worker 0 of 2 of reader 'words'.*{process}.*{how.name}"
    ):
        list(found)


def test_an_exit_is_an_error_too() -> None:
    def items() -> Iterator[int]:
        yield 1
        os._exit(3)

    with pytest.raises(WorkerDied, match="ended with status 3"):
        list(Stream("leaving", [items], 1, rotate=True).items())


def test_a_consumer_that_leaves_early_ends_the_workers() -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield np.zeros(LARGE)

    found = Stream("endless", [endless, endless], 4, rotate=True, lend=2).items()
    next(found)
    found.close()


def test_a_worker_that_hangs_is_killed() -> None:
    def stuck() -> Iterator[int]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        yield 1
        while True:
            time.sleep(60)

    found = Stream("stuck", [stuck], 1, rotate=True).items()
    next(found)
    found.close()


def _draws(task: int) -> tuple[int, float, float]:
    return task, random.random(), float(np.random.rand())


def _tasks(workers: int, first: int = 0, **options: Any) -> list[Any]:
    tasks = Tasks(
        "draws", _draws, workers=workers, seeds=SEEDS, begin=lambda number: None, lend=2, **options
    )
    return list(tasks.results(range(first, 23), first))


def test_tasks_are_in_order_and_draw_the_same_whoever_works() -> None:
    one = _tasks(1)
    assert [task for task, *_ in one] == list(range(23))
    assert _tasks(3) == one
    assert _tasks(2, first=9) == one[9:]
    assert len({drawn for _, drawn, _ in one}) == 23


def test_a_late_result_is_an_error_after_the_timeout() -> None:
    tasks = Tasks(
        "late",
        lambda seconds: time.sleep(seconds),
        workers=1,
        seeds=SEEDS,
        begin=lambda number: None,
        lend=0,
        timeout=0.2,
    )
    with pytest.raises(Exception, match=r"no batch came within 0\.2 seconds from worker 0 of 1"):
        list(tasks.results([30]))
