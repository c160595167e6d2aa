"""Decorators with threads and processes: xmap_readers, multiprocess_reader; trainers' shares."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.feed import WorkerDied
from refluid.paddle import reader
from tests.choices import crossed
from tests.feed.leftovers import assert_nothing_left


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


def numbers(count: int) -> Callable[[], Iterator[int]]:
    return lambda: iter(range(count))


@pytest.mark.parametrize(
    ("threads", "size"),
    crossed([1, 3, 8], [1, 5, 100], fast=[(1, 5), (3, 1), (8, 1), (8, 100)]),
)
def test_xmap(threads: int, size: int) -> None:
    def square(sample: int) -> int:
        time.sleep(0.001 * (sample % 3))
        return sample * sample

    expected = [number * number for number in range(40)]
    ordered = reader.xmap_readers(square, numbers(40), threads, size, order=True)
    assert list(ordered()) == list(ordered()) == expected
    assert sorted(reader.xmap_readers(square, numbers(40), threads, size)()) == expected


def test_xmap_works_in_parallel_and_not_too_far_ahead() -> None:
    read: list[int] = []

    def counting() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    together = threading.Barrier(4, timeout=60)

    def meet(sample: int) -> int:
        if sample < 4:
            together.wait()
        return sample

    mapped = reader.xmap_readers(meet, counting, 4, 6, order=True)()
    assert next(mapped) == 0
    time.sleep(0.1)
    assert len(read) <= 4 + 6 + 2
    mapped.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", [False, True])
def test_xmap_passes_errors_on(order: bool) -> None:
    def fail(sample: int) -> int:
        if sample == 3:
            raise KeyError("sample 3")
        return sample

    found = []
    with pytest.raises(KeyError, match="sample 3"):
        for sample in reader.xmap_readers(fail, numbers(9), 2, 4, order)():
            found.append(sample)
    assert found == [0, 1, 2] or not order

    def broken() -> Iterator[int]:
        yield 1
        raise OSError("file gone")

    with pytest.raises(OSError, match="file gone"):
        list(reader.xmap_readers(lambda sample: sample, broken, 2, 4, order)())


@pytest.mark.parametrize(
    ("use_pipe", "queue_size"), crossed([True, False], [1, 1000], fast=[(True, 1000), (False, 1)])
)
def test_multiprocess(use_pipe: bool, queue_size: int) -> None:
    def images(first: int) -> Any:
        return lambda: ((np.full((3, 64, 64), first + i, "float32"), i) for i in range(10))

    readers = [images(0), images(100), images(200)]
    merged = reader.multiprocess_reader(readers, use_pipe, queue_size)
    for _ in range(2):
        found = sorted((int(image[0, 0, 0]), label) for image, label in merged())
        assert found == [(first + i, i) for first in (0, 100, 200) for i in range(10)]


def test_multiprocess_errors() -> None:
    with pytest.raises(AssertionError):
        reader.multiprocess_reader([])
    with pytest.raises(ValueError, match="sample has None"):
        list(reader.multiprocess_reader([lambda: iter([1, None])])())

    def suicide() -> Iterator[int]:
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerDied, match=r"worker 1 of 2 .*multiprocess_reader.* SIGKILL"):
        list(reader.multiprocess_reader([numbers(3), suicide])())


def test_multiprocess_within_a_loader_process() -> None:
    with fluid.program_guard(fluid.Program()):
        x = fluid.data("x", [None, 2])
    merged = reader.multiprocess_reader([lambda: iter([[np.ones(2)]] * 4)] * 2)
    loader = fluid.io.DataLoader.from_generator([x], 2, use_multiprocess=True)
    loader.set_sample_generator(merged, 4, places=fluid.CPUPlace())
    assert len(list(loader())) == 2


def test_share_of_a_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(count: int) -> list[list[int]]:
        found = []
        monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
        for trainer in range(3):
            monkeypatch.setenv("PADDLE_TRAINER_ID", str(trainer))
            found.append(list(fluid.contrib.reader.distributed_batch_reader(numbers(count))()))
        return found

    assert shares(6) == [[0, 3], [1, 4], [2, 5]]
    assert shares(8) == shares(6)
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    with pytest.raises(AssertionError, match="PADDLE_TRAINER_ID is 3"):
        fluid.contrib.reader.distributed_batch_reader(numbers(1))
    for name in ("PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID"):
        monkeypatch.delenv(name)
    assert list(fluid.contrib.distributed_batch_reader(numbers(2))()) == [0, 1]


def test_the_same_functions_everywhere() -> None:
    for name in reader.__all__:
        if name != "decorator":
            assert getattr(fluid.io, name) is getattr(reader, name)
