"""Readers that are part of a program, of every kind: passes, queue, errors, position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.feed import ReaderFailed
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.reading import (
    EXPECTED,
    SIZE,
    WIDTH,
    Case,
    batches,
    from_loader,
    from_py_reader,
    from_pyreader,
    from_variables,
    samples,
)

KINDS: dict[str, Callable[[], tuple[Any, list[fluid.Variable]]]] = {
    "py_reader": lambda: from_py_reader(True),
    "py_reader without double buffer": lambda: from_py_reader(False),
    "create_py_reader_by_data": from_variables,
    "DataLoader": from_loader,
    "DataLoader in a process": lambda: from_loader(use_multiprocess=True),
    "DataLoader without double buffer": lambda: from_loader(use_double_buffer=False),
    "PyReader": from_pyreader,
}
LISTS = ("decorate_paddle_reader", "decorate_sample_list_generator", "set_sample_list_generator")
BATCHES = ("decorate_tensor_provider", "decorate_batch_generator", "set_batch_generator")


def give(reader: Any, names: tuple[str, ...], source: Any) -> None:
    """Hands a generator over by the first of the methods that the reader has."""
    getattr(reader, next(name for name in names if hasattr(reader, name)))(source)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(KINDS[request.param])
    give(made.reader, LISTS, paddle.batch(samples(), SIZE))
    yield made
    made.reader.reset()
    assert_nothing_left()


def test_passes(case: Case) -> None:
    for _ in range(3):
        case.reader.start()
        assert case.all() == EXPECTED
        assert case.all() == []
        case.reader.reset()


def test_what_fluid_forgives(case: Case) -> None:
    case.reader.start()
    case.reader.start()
    assert case.step() == EXPECTED[0]
    case.reader.reset()
    case.reader.reset()
    case.reader.start()
    assert case.all() == EXPECTED
    case.reader.start()
    assert case.all() == EXPECTED


def test_running_before_start_is_an_error(case: Case) -> None:
    for _ in range(2):
        with pytest.raises(fluid.core.EnforceNotMet, match=r"not started.*start\(\)"):
            case.step()
        case.reader.start()
        case.step()
        case.reader.reset()


def test_queue(case: Case) -> None:
    assert case.reader.queue.capacity() == 3
    assert case.reader.queue.size() == 0
    case.reader.start()
    case.step()
    assert 0 <= case.reader.queue.size() <= 3


def test_batches_of_arrays_and_tensors(case: Case) -> None:
    give(case.reader, BATCHES, batches(3))
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(3)]

    def tensors() -> Iterator[Any]:
        for data, label in batches(3)():
            yield [fluid.create_lod_tensor(one, [], fluid.CPUPlace()) for one in (data, label)]

    give(case.reader, BATCHES, tensors)
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(3)]


def test_a_generator_that_uses_its_memory_again(case: Case) -> None:
    def reusing() -> Iterator[Any]:
        data, label = np.zeros((SIZE, WIDTH), "float32"), np.zeros((SIZE, 1), "int64")
        for number in range(8):
            data[:] = number
            yield data, label

    give(case.reader, BATCHES, reusing)
    case.reader.start()
    assert case.all() == [[number] * SIZE for number in range(8)]


def test_errors_of_the_generator(case: Case) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(2)()
        raise OSError("disk gone")

    give(case.reader, BATCHES, failing)
    case.reader.start()
    assert [case.step(), case.step()] == [[0] * SIZE, [1] * SIZE]
    for _ in range(2):
        with pytest.raises(fluid.core.EnforceNotMet, match="disk gone") as caught:
            case.step()
        assert isinstance(caught.value, ReaderFailed)
        assert "Blocking queue is killed because the data reader raises" in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)
    case.reader.reset()
    give(case.reader, BATCHES, batches(1))
    case.reader.start()
    assert case.all() == [[0] * SIZE]


def test_speed_test_mode(case: Case) -> None:
    fluid.set_flags({"FLAGS_reader_queue_speed_test_mode": True})
    try:
        case.reader.start()
        assert {tuple(case.step()) for _ in range(20)} == {tuple(EXPECTED[0])}
        assert case.reader.queue.size() >= 1
    finally:
        fluid.set_flags({"FLAGS_reader_queue_speed_test_mode": False})


@pytest.mark.parametrize("after", [0, 2, 5, 6])
def test_position(case: Case, after: int) -> None:
    case.reader.start()
    before = [case.step() for _ in range(after)]
    state = case.reader.state_dict()
    case.reader.reset()
    case.reader.load_state_dict(state)
    case.reader.start()
    assert before + case.all() == EXPECTED
    case.reader.start()
    assert case.all() == EXPECTED
    with pytest.raises(ValueError, match="no state of a loader"):
        case.reader.load_state_dict({"batch": 3})
