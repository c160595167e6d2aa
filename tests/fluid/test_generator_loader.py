"""Loaders that are iterated, from generators."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.feed import ReaderFailed
from refluid.ir.program import Program
from tests.choices import crossed
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.loaders import CPU, batches, flat, from_generator, ids, samples


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


@pytest.fixture
def feeds() -> Iterator[list[fluid.Variable]]:
    with fluid.program_guard(Program()), fluid.unique_name.guard():
        yield [fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")]


@pytest.mark.parametrize("multiprocess", [False, True])
def test_kinds_of_generators(feeds: Any, multiprocess: bool) -> None:
    loader = from_generator(feeds, use_multiprocess=multiprocess)
    expected = [[0, 1, 2], [3, 4, 5], [6, 7]]
    loader.set_sample_list_generator(paddle.batch(samples(8), 3), CPU)
    assert [ids(data) for data in loader()] == expected
    assert [ids(data) for data in loader] == expected
    loader.set_sample_generator(samples(8), 3, False, places=[CPU])
    assert [ids(data) for data in loader()] == expected
    loader.set_sample_generator(samples(8), 3, places=CPU)
    assert [ids(data) for data in loader()] == expected[:2]
    loader.set_batch_generator(batches(2), CPU)
    assert [ids(data) for data in loader()] == [[0] * 3, [1] * 3]


def test_what_a_step_is(feeds: Any) -> None:
    for kind in (from_generator, lambda *a, **k: fluid.io.PyReader(*a, capacity=2, **k)):
        for return_list, wanted in ((False, dict), (True, list)):
            loader = kind(feeds, return_list=return_list)
            give = getattr(loader, "set_batch_generator", None) or loader.decorate_batch_generator
            give(batches(1), places=CPU)
            (data,) = list(loader())
            assert isinstance(data, list)
            assert [type(one) for one in data] == [wanted]
            values = data[0] if return_list else [data[0][var.name] for var in feeds]
            assert [type(one) for one in values] == [fluid.LoDTensor] * 2
            assert np.array(values[0]).dtype == np.float32


@pytest.mark.parametrize("multiprocess", [False, True])
def test_places(feeds: Any, multiprocess: bool) -> None:
    steps = {}
    for drop_last in (True, False):
        loader = from_generator(feeds, drop_last=drop_last, use_multiprocess=multiprocess)
        loader.set_batch_generator(batches(5), [CPU] * 2)
        steps[drop_last] = [[int(np.array(one["x"])[0, 0]) for one in data] for data in loader()]
    assert steps == {True: [[0, 1], [2, 3]], False: [[0, 1], [2, 3], [4]]}


def test_training_and_batches_by_name(feeds: Any) -> None:
    loss = fluid.layers.mean(fluid.layers.fc(feeds[0], 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor(CPU)
    executor.run(fluid.default_startup_program())
    loader = from_generator(feeds)
    loader.set_batch_generator(lambda: ({"label": label, "x": x} for x, label in batches(4)()), CPU)
    losses = [
        executor.run(feed=data, fetch_list=[loss])[0].item() for _ in range(2) for data in loader()
    ]
    assert len(losses) == 8
    assert losses[4:] < losses[:4]


@pytest.mark.parametrize("multiprocess", [False, True])
def test_numbers_take_the_element_type_of_the_variable(multiprocess: bool) -> None:
    with fluid.program_guard(fluid.Program()):
        x, n = fluid.data("x", [None, 2]), fluid.data("n", [None, 2], "int64")
    loader = from_generator([x, n], use_multiprocess=multiprocess)
    loader.set_batch_generator(lambda: iter([([[0.1, 2]], [[3, 4]])]), CPU)
    (step,) = loader
    assert [np.asarray(one).dtype for one in step[0].values()] == [np.float32, np.int64]
    assert np.asarray(step[0]["x"])[0, 0] == np.float32(0.1)


def test_leaving_a_loop_early_and_coming_back(feeds: Any) -> None:
    loader = from_generator(feeds).set_batch_generator(batches(30), CPU)
    for _ in range(3):
        for number, data in enumerate(loader()):
            assert ids(data) == [number] * 3
            if number == 4:
                break
    assert loader.state_dict()["batch"] == 5
    assert len(list(loader())) == 30


def test_iterating_within_its_own_loop_is_an_error(feeds: Any) -> None:
    loader = from_generator(feeds).set_batch_generator(batches(3), CPU)
    with pytest.raises(RuntimeError, match="iterated anew"):
        for _ in loader():
            for _ in loader():
                pass
    first = iter(loader)
    next(first)
    assert len(list(loader)) == 3


def test_next(feeds: Any) -> None:
    loader = from_generator(feeds).set_batch_generator(batches(2), CPU)
    with pytest.raises(StopIteration):
        next(loader)
    running = iter(loader)
    assert ids(loader.next()) == [0] * 3
    assert ids(next(running)) == [1] * 3
    with pytest.raises(StopIteration):
        loader.next()


def test_errors_come_after_the_batches(feeds: Any) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(2)()
        raise OSError("disk gone")

    for multiprocess in (False, True):
        loader = from_generator(feeds, use_multiprocess=multiprocess)
        loader.set_batch_generator(failing, CPU)
        found = []
        with pytest.raises(ReaderFailed, match="disk gone") as caught:
            found += [ids(data) for data in loader()]
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(ReaderFailed):
            for data in loader():
                found.append(ids(data))
        assert found == [[0] * 3, [1] * 3]


def test_a_killed_worker_is_named(feeds: Any) -> None:
    def suicide() -> Iterator[Any]:
        yield from batches(2)()
        os.kill(os.getpid(), signal.SIGKILL)

    loader = from_generator(feeds, use_multiprocess=True).set_batch_generator(suicide, CPU)
    with pytest.raises(ReaderFailed, match=r"worker 0 of 1 of reader .*x, label.*SIGKILL"):
        list(loader())


def test_infinite_generators(feeds: Any) -> None:
    def endless() -> Iterator[Any]:
        while True:
            yield from batches(1)()

    loader = from_generator(feeds).set_batch_generator(endless, CPU)
    for _ in range(2):
        for number, _ in enumerate(loader()):
            if number == 100:
                break


def test_mistakes(feeds: Any) -> None:
    loader = from_generator(feeds)
    with pytest.raises(AssertionError, match="Places cannot be None when DataLoader is iterable"):
        loader.set_batch_generator(batches(1))
    with pytest.raises(AssertionError, match="Data source of DataLoader has not set yet"):
        iter(loader)
    assert loader() is loader  # classes of old scripts call what they keep
    with pytest.raises(AssertionError, match=r"start\(\) cannot be called when DataLoader is it"):
        loader.start()
    with pytest.raises(AssertionError, match=r"reset\(\) cannot be called when DataLoader is it"):
        loader.reset()
    loader.set_batch_generator(lambda: iter([(np.zeros((1, 2)),)]), CPU)
    with pytest.raises(ValueError, match="batch of 1 arrays can't be fed to the 2 variables"):
        list(loader())
    with pytest.raises(TypeError, match="made by DatasetFactory"):
        fluid.io.DataLoader.from_dataset(None, CPU)


def shuffled(count: int) -> Any:
    return paddle.batch(paddle.reader.shuffle(samples(count), 20), 3)


@pytest.mark.parametrize(
    ("taken", "multiprocess"),
    crossed(
        [0, 1, 4, 7, 9],
        [False, True],
        fast=[(0, False), (1, False), (4, True), (7, False), (9, True)],
    ),
)
def test_position_of_a_shuffling_generator(feeds: Any, taken: int, multiprocess: bool) -> None:
    def loader() -> Any:
        made = from_generator(feeds, use_multiprocess=multiprocess)
        return made.set_sample_list_generator(shuffled(20), CPU)

    random.seed(3)
    first = loader()
    seen = [[ids(data) for data in first()] for _ in range(2)]
    assert sorted(flat(seen[0])) == list(range(20))
    assert seen[0] != seen[1]
    running = iter(first)
    before = [ids(next(running)) for _ in range(min(taken, 7))]
    if taken > 7:
        assert next(running, None) is None
    state = json.loads(json.dumps(first.state_dict()))
    rest = [ids(data) for data in running]
    following = [ids(data) for data in first()]
    assert state["epoch"] == (3 if taken > 7 else 2)
    random.seed(99)
    second = loader()
    second.load_state_dict(state)
    if taken > 7:
        assert [ids(data) for data in second()] == following
    else:
        assert [ids(data) for data in second()] == rest
        assert [ids(data) for data in second()] == following
        assert sorted(flat(before + rest)) == list(range(20))


def test_a_pass_is_called_as_its_loader_is(feeds: Any) -> None:
    """`loader()()` is a pass from the beginning; the user's generator is asked for one only."""
    asked: list[int] = []

    def generator() -> Iterator[Any]:
        asked.append(1)
        return batches(2)()

    loader = from_generator(feeds).set_batch_generator(generator, CPU)
    assert [ids(data) for data in loader()()] == [[0] * 3, [1] * 3]
    assert len(asked) == 1
    begun = iter(loader)
    assert ids(next(begun)) == [0] * 3
    assert [ids(data) for data in begun()] == [[0] * 3, [1] * 3]
    with pytest.raises(RuntimeError, match="has ended"):
        next(begun)
    ended = loader()
    assert [len(list(ended)), len(list(ended())), len(list(loader()))] == [2, 2, 2]
