"""Ctrl-C at each call in refluid that begins, gives or ends a pass: nothing is left running."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.paddle import reader as readers
from tests.feed.leftovers import assert_nothing_left
from tests.interrupting import interrupted_at_each_call

# An interrupt right after a socket was made leaves it to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("ctrl_c"),
]
COUNT = 4
PARTS = ("/refluid/feed/", "/fluid/reader/")
Work = Callable[[], list[int]]


def _batches() -> Iterator[Any]:
    for number in range(COUNT):
        yield [np.full((2, 1), number)]


class _Numbers(fluid.io.Dataset):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return np.array([index])


def _loader(**options: Any) -> Work:
    row = fluid.data("row", [None, 1], "int64")
    loader = fluid.io.DataLoader.from_generator([row], 2, **options)
    loader.set_batch_generator(_batches, fluid.CPUPlace())
    return lambda: [int(np.array(step["row"])[0, 0]) for (step,) in loader()]


def _mapped() -> Work:
    row = fluid.data("row", [None, 1], "int64")
    loader = fluid.io.DataLoader(_Numbers(), [row], fluid.CPUPlace(), num_workers=1)
    return lambda: [int(np.array(step["row"])[0, 0]) for (step,) in loader()]


def _program() -> Work:
    row = fluid.data("row", [None, 1], "int64")
    loader = fluid.io.DataLoader.from_generator([row], 2, iterable=False)
    least = fluid.layers.reduce_sum(row)
    loader.set_batch_generator(_batches)
    executor, main = fluid.Executor(), fluid.default_main_program()

    def work() -> list[int]:
        found = []
        try:
            loader.start()
            while True:
                found.append(executor.run(main, fetch_list=[least])[0].item() // 2)
        except fluid.core.EOFException:
            return found
        finally:
            loader.reset()

    return work


def _numbers() -> Iterator[int]:
    yield from range(COUNT)


KINDS: dict[str, Callable[[], Work]] = {
    "generator": _loader,
    "process": lambda: _loader(use_multiprocess=True),
    "workers": _mapped,
    "program": _program,
    "xmap": lambda: lambda: list(readers.xmap_readers(abs, _numbers, 2, 3, order=True)()),
    "buffered": lambda: lambda: list(readers.buffered(_numbers, 2)()),
    "processes": lambda: lambda: list(readers.multiprocess_reader([_numbers])()),
}
FORKING = ("process", "workers", "processes")


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_some_calls(kind: str) -> None:
    interrupted(kind, 67 if kind in FORKING else 7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_each_call(kind: str) -> None:
    interrupted(kind, 1)


def interrupted(kind: str, step: int) -> None:
    """Interrupts the work at every call number that is a multiple of `step`."""
    with fluid.program_guard(fluid.Program()), fluid.unique_name.guard():
        work = KINDS[kind]()
    assert work() == list(range(COUNT))
    at = 0
    for at in interrupted_at_each_call(work, step, PARTS):
        try:
            assert_nothing_left()
            assert work() == list(range(COUNT))
        except BaseException as error:
            error.add_note(f"after an interrupt at call {at}")
            raise
    assert at > 20
    assert_nothing_left()
    assert work() == list(range(COUNT))
    del work
    gc.collect()
    assert_nothing_left()
