"""Every engine that gives rows gives each exactly once per pass, whatever its workers and order."""

from __future__ import annotations

import gc
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid, paddle
from refluid.paddle import reader as readers
from tests.choices import crossed, often
from tests.feed.leftovers import assert_nothing_left

ROWS, BATCH = 203, 16
CPU = fluid.CPUPlace()


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    with fluid.program_guard(fluid.Program()), fluid.scope_guard(fluid.Scope()):
        yield
    gc.collect()
    assert_nothing_left()


def variable() -> Any:
    return fluid.data("row", [None, 1], "int64")


def found(steps: Any) -> list[int]:
    """The rows of all steps, in order."""
    return [
        row for step in steps for place in step for row in np.array(place["row"]).ravel().tolist()
    ]


class Numbers(fluid.io.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        return np.array([index])


class Stream(fluid.dataloader.IterableDataset):  # type: ignore[misc]
    """Each worker has its part."""

    def __iter__(self) -> Iterator[Any]:
        worker = fluid.io.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return (np.array([row]) for row in range(first, ROWS, step))


@pytest.mark.parametrize(
    ("shuffle", "places", "workers"),
    crossed([False, True], [1, 2], [0, 1, 3], fast=[(True, 1, 0), (True, 2, 1), (False, 2, 3)]),
)
def test_datasets_by_number(workers: int, places: int, shuffle: bool) -> None:
    loader = fluid.io.DataLoader(
        Numbers(),
        [variable()],
        fluid.cpu_places(places),
        batch_size=BATCH,
        shuffle=shuffle,
        num_workers=workers,
    )
    passes = [found(loader()) for _ in range(3)]
    for rows in passes:
        assert sorted(rows) == list(range(ROWS))
        assert (rows != list(range(ROWS))) == shuffle
    assert (passes[0] != passes[1]) == shuffle


@pytest.mark.parametrize("workers", often([0, 1, 3], [0, 3]))
def test_streams(workers: int) -> None:
    loader = fluid.io.DataLoader(Stream(), [variable()], CPU, batch_size=BATCH, num_workers=workers)
    for _ in range(2):
        assert sorted(found(loader())) == list(range(ROWS))


def samples() -> Iterator[Any]:
    for row in range(ROWS):
        yield (np.array([row]),)


def lists() -> Iterator[Any]:
    return paddle.batch(samples, BATCH)()  # type: ignore[no-any-return]


def batches() -> Iterator[Any]:
    for start in range(0, ROWS, BATCH):
        yield [np.arange(start, min(start + BATCH, ROWS)).reshape(-1, 1)]


SETTERS: dict[str, Callable[[Any], Any]] = {
    "samples": lambda loader: loader.set_sample_generator(samples, BATCH, False, CPU),
    "lists": lambda loader: loader.set_sample_list_generator(lists, CPU),
    "batches": lambda loader: loader.set_batch_generator(batches, CPU),
}


@pytest.mark.parametrize(
    ("setter", "process", "capacity"),
    crossed(
        SETTERS,
        [False, True],
        [1, 64],
        fast=[("samples", True, 1), ("lists", False, 1), ("batches", True, 64)],
    ),
)
def test_generators(setter: str, process: bool, capacity: int) -> None:
    loader = fluid.io.DataLoader.from_generator([variable()], capacity, use_multiprocess=process)
    SETTERS[setter](loader)
    for _ in range(2):
        assert found(loader()) == list(range(ROWS))


@pytest.mark.parametrize("setter", SETTERS)
def test_programs_that_read(setter: str) -> None:
    row = variable()
    loader = fluid.io.DataLoader.from_generator([row], 4, iterable=False)
    SETTERS[setter](loader)
    exe, rows = fluid.Executor(CPU), []
    for _ in range(2):
        rows.clear()
        loader.start()
        try:
            while True:
                rows += exe.run(fetch_list=[row])[0].ravel().tolist()
        except fluid.core.EOFException:
            loader.reset()
        assert rows == list(range(ROWS))


DECORATED: dict[str, Callable[[], Any]] = {
    "shuffle": lambda: readers.shuffle(samples, 50),
    "buffered": lambda: readers.buffered(samples, 7),
    "xmap": lambda: readers.xmap_readers(lambda one: one, samples, 4, 9),
    "xmap in order": lambda: readers.xmap_readers(lambda one: one, samples, 4, 9, order=True),
    "cache": lambda: readers.cache(samples),
    "processes": lambda: readers.multiprocess_reader(
        [lambda part=part: itertools.islice(samples(), part, None, 3) for part in range(3)]  # type: ignore[misc]
    ),
    "all": lambda: readers.buffered(
        readers.xmap_readers(lambda one: one, readers.shuffle(samples, 500), 3, 5), 5
    ),
}


@pytest.mark.parametrize("name", DECORATED)
def test_decorators(name: str) -> None:
    random.seed(1)
    made = DECORATED[name]()
    for _ in range(2):
        rows = [int(one[0][0]) for one in made()]
        assert sorted(rows) == list(range(ROWS))
        if name in ("buffered", "xmap in order", "cache"):
            assert rows == list(range(ROWS))


@pytest.mark.parametrize(
    ("stop", "workers"), crossed([1, 5, 12], [0, 2], fast=[(1, 0), (5, 2), (12, 0)])
)
def test_positions(stop: int, workers: int) -> None:
    def loader() -> Any:
        return fluid.io.DataLoader(
            Numbers(), [row], CPU, batch_size=BATCH, shuffle=True, num_workers=workers
        )

    row = variable()
    first, again = loader(), loader()
    taken = found(itertools.islice(first(), stop))
    again.load_state_dict(first.state_dict())
    assert sorted(taken + found(again())) == list(range(ROWS))


def test_a_pass_ends_while_its_position_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = fluid.io.DataLoader(Numbers(), [variable()], CPU, batch_size=BATCH, shuffle=True)
    steps = loader()
    taken, passes = found(itertools.islice(steps, 5)), loader._passes
    leaving = threading.Thread(target=passes.leave, args=(passes.reader.generation,))

    def now(reader: Any) -> bool:
        if leaving.ident is None:
            leaving.start()
            leaving.join(0.2)
        return reader._pump is not None

    monkeypatch.setattr(type(passes.reader), "started", property(now))
    state = loader.state_dict()
    leaving.join()
    loader.load_state_dict(state)
    assert sorted(taken + found(loader())) == list(range(ROWS))
