"""Loaders that are iterated: from generators and from datasets."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.feed import ReaderFailed
from refluid.ir.program import Program
from tests.feed.leftovers import assert_nothing_left

CPU = fluid.CPUPlace()


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


@pytest.fixture
def feeds() -> Iterator[list[fluid.Variable]]:
    with fluid.program_guard(Program()), fluid.unique_name.guard():
        yield [fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")]


def samples(count: int) -> Callable[[], Iterator[Any]]:
    return lambda: ((np.full(2, one, "float32"), [one]) for one in range(count))


def batches(count: int) -> Callable[[], Iterator[Any]]:
    return lambda: (
        (np.full((3, 2), one, "float32"), np.full((3, 1), one, "int64")) for one in range(count)
    )


def ids(data: Any) -> list[Any]:
    """The labels in what a loader gave, flat: of all places."""
    found = []
    for one in data:
        tensor = one["label"] if isinstance(one, dict) else one[1]
        found += np.array(tensor)[:, 0].tolist()
    return found


def from_generator(feeds: Any, **options: Any) -> Any:
    return fluid.io.DataLoader.from_generator(feeds, 4, **options)


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
    loader.set_batch_generator(
        lambda: ({"label": label, "x": x} for x, label in batches(4)()), CPU
    )
    losses = [
        executor.run(feed=data, fetch_list=[loss])[0].item()
        for _ in range(2)
        for data in loader()
    ]
    assert len(losses) == 8
    assert losses[4:] < losses[:4]


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
    start = time.monotonic()
    with pytest.raises(ReaderFailed, match=r"worker 0 of 1 of reader .*x, label.*SIGKILL"):
        list(loader())
    assert time.monotonic() - start < 5


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
    with pytest.raises(AssertionError, match=r"start\(\) cannot be called when DataLoader is it"):
        loader.start()
    with pytest.raises(AssertionError, match=r"reset\(\) cannot be called when DataLoader is it"):
        loader.reset()
    loader.set_batch_generator(lambda: iter([(np.zeros((1, 2)),)]), CPU)
    with pytest.raises(ValueError, match="batch of 1 arrays can't be fed to the 2 variables"):
        list(loader())
    with pytest.raises(NotImplementedError, match="from_dataset"):
        fluid.io.DataLoader.from_dataset(None, CPU)


def shuffled(count: int) -> Any:
    return paddle.batch(paddle.reader.shuffle(samples(count), 20), 3)


@pytest.mark.parametrize("multiprocess", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 4, 7, 9])
def test_position_of_a_shuffling_generator(feeds: Any, taken: int, multiprocess: bool) -> None:
    def loader() -> Any:
        made = from_generator(feeds, use_multiprocess=multiprocess)
        return made.set_sample_list_generator(shuffled(20), CPU)

    random.seed(3)
    first = loader()
    seen = [[ids(data) for data in first()] for _ in range(2)]
    assert sorted(sum(seen[0], [])) == list(range(20))
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
        assert sorted(sum(before + rest, [])) == list(range(20))


class Numbers(fluid.io.Dataset):
    """Sample i: two floats and i; draws a random number if asked to."""

    def __init__(self, count: int, draws: bool = False) -> None:
        super().__init__()
        self.count, self.draws = count, draws

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, idx: int) -> Any:
        noise = np.random.rand() if self.draws else idx
        return np.full(2, noise, "float32"), np.array([idx])


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_sample_once(feeds: Any, workers: int, shuffle: bool) -> None:
    np.random.seed(4)
    loader = fluid.io.DataLoader(
        Numbers(25), feeds, CPU, batch_size=4, shuffle=shuffle, num_workers=workers
    )
    passes = [[ids(data) for data in loader] for _ in range(2)]
    for one in passes:
        assert [len(batch) for batch in one] == [4] * 6 + [1]
        assert sorted(sum(one, [])) == list(range(25))
    assert (passes[0] != passes[1]) == shuffle
    assert len(loader) == 7
    if shuffle:
        np.random.seed(4)
        order = np.arange(25)
        np.random.shuffle(order)
        assert sum(passes[0], []) == order.tolist()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 5, 7])
def test_position_in_a_dataset(feeds: Any, workers: int, taken: int) -> None:
    def loader() -> Any:
        return fluid.io.DataLoader(
            Numbers(25, workers > 0), feeds, CPU, batch_size=4, shuffle=True, num_workers=workers
        )

    def values(data: Any) -> Any:
        noise = np.array(data[0]["x"]).tolist() if workers else None
        return ids(data), noise

    np.random.seed(5)
    first = loader()
    list(first)
    running = iter(first)
    for _ in range(taken):
        next(running)
    state = json.loads(json.dumps(first.state_dict()))
    rest = [values(data) for data in running]
    np.random.seed(6)
    second = loader()
    second.load_state_dict(state)
    assert [values(data) for data in second] == rest


def test_random_numbers_do_not_depend_on_the_number_of_workers(feeds: Any) -> None:
    def noise(workers: int) -> list[Any]:
        np.random.seed(7)
        loader = fluid.io.DataLoader(
            Numbers(12, True), feeds, CPU, batch_size=2, num_workers=workers
        )
        return [np.array(data[0]["x"]).tolist() for _ in range(2) for data in loader]

    assert noise(1) == noise(3)
    assert len({str(batch) for batch in noise(2)}) == 12


class Stream(fluid.io.IterableDataset):
    """Numbers from 0 on, parted among the workers."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __iter__(self) -> Iterator[Any]:
        info = fluid.io.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for one in range(first, self.count, step):
            yield np.zeros(2, "float32"), np.array([one])


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable_datasets(feeds: Any, workers: int) -> None:
    loader = fluid.io.DataLoader(Stream(20), feeds, CPU, batch_size=3, num_workers=workers)
    seen = [ids(data) for data in loader]
    assert sorted(sum(seen, [])) == list(range(20))
    assert seen == [ids(data) for data in loader]
    running = iter(loader)
    for _ in range(3):
        next(running)
    state = loader.state_dict()
    del running
    loader.load_state_dict(state)
    assert [ids(data) for data in loader] == seen[3:]
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    if workers < 2:
        assert seen[0] == [0, 1, 2]


def test_options_of_workers(feeds: Any, capfd: pytest.CaptureFixture[str]) -> None:
    def begin(number: int) -> None:
        info = fluid.io.get_worker_info()
        assert info is not None
        print(f"worker {number} is {info.id} of {info.num_workers}", flush=True)

    loader = fluid.io.DataLoader(
        Numbers(4), feeds, CPU, batch_size=2, num_workers=2, worker_init_fn=begin
    )
    assert len(list(loader)) == 2
    assert sorted(capfd.readouterr().out.splitlines()) == ["worker 0 is 0 of 2", "worker 1 is 1 of 2"]


def test_own_batches(feeds: Any) -> None:
    def collate(rows: list[Any]) -> Any:
        return [np.stack([row[0] for row in rows]), np.array([[len(rows)]])]

    sampler = fluid.io.BatchSampler(indices=[5, 1, 3], batch_size=2, drop_last=True)
    loader = fluid.io.DataLoader(
        Numbers(9), feeds, CPU, batch_sampler=sampler, collate_fn=collate, return_list=True
    )
    (data,) = list(loader)
    assert np.array(data[0][0])[:, 0].tolist() == [5, 1]
    assert np.array(data[0][1]).tolist() == [[2]]
    assert len(loader) == len(sampler) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_a_dataset(feeds: Any, workers: int) -> None:
    class Broken(Numbers):
        def __getitem__(self, idx: int) -> Any:
            if idx == 5:
                raise OSError("sample 5 can't be read")
            return super().__getitem__(idx)

    loader = fluid.io.DataLoader(Broken(9), feeds, CPU, batch_size=2, num_workers=workers)
    found = []
    with pytest.raises(ReaderFailed, match="sample 5 can't be read"):
        for data in loader:
            found.append(ids(data))
    assert found == [[0, 1], [2, 3]] or workers
    unequal = fluid.io.default_collate_fn
    with pytest.raises(ValueError, match="field 0 .* different shapes"):
        unequal([(np.zeros(2),), (np.zeros(3),)])
    with pytest.raises(AssertionError, match="exactly one of dataset and indices"):
        fluid.io.BatchSampler()
    with pytest.raises(AssertionError, match="should not be set when batch_sampler"):
        fluid.io.DataLoader(Numbers(2), feeds, CPU, batch_sampler=[[0]], shuffle=True)


def test_bytes_are_normalised_by_the_program(feeds: Any) -> None:
    image = fluid.data("image", [None, 3, 4, 4], "uint8")
    scaled = fluid.layers.scale(fluid.layers.cast(image, "float32"), 1 / 255.0)

    class Images(fluid.io.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, idx: int) -> Any:
            return np.full((3, 4, 4), idx * 85, np.uint8)

    loader = fluid.io.DataLoader(Images(), [image], CPU, batch_size=2, num_workers=1)
    executor = fluid.Executor(CPU)
    found = [executor.run(feed=data, fetch_list=[scaled])[0][:, 0, 0, 0] for data in loader]
    np.testing.assert_allclose(np.concatenate(found), [0, 1 / 3, 2 / 3, 1], rtol=1e-6)
