"""Loaders of datasets, with and without worker processes."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.feed import ReaderFailed
from refluid.ir.program import Program
from tests.choices import crossed, often
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.loaders import CPU, flat, ids


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


@pytest.fixture
def feeds() -> Iterator[list[fluid.Variable]]:
    with fluid.program_guard(Program()), fluid.unique_name.guard():
        yield [fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")]


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


@pytest.mark.parametrize(
    ("workers", "shuffle"),
    crossed([0, 1, 3], [False, True], fast=[(0, True), (1, True), (3, False)]),
)
def test_every_sample_once(feeds: Any, workers: int, shuffle: bool) -> None:
    np.random.seed(4)
    loader = fluid.io.DataLoader(
        Numbers(25), feeds, CPU, batch_size=4, shuffle=shuffle, num_workers=workers
    )
    passes = [[ids(data) for data in loader] for _ in range(2)]
    for one in passes:
        assert [len(batch) for batch in one] == [4] * 6 + [1]
        assert sorted(flat(one)) == list(range(25))
    assert (passes[0] != passes[1]) == shuffle
    assert len(loader) == 7
    if shuffle:
        np.random.seed(4)
        order = np.arange(25)
        np.random.shuffle(order)
        assert flat(passes[0]) == order.tolist()


@pytest.mark.parametrize(
    ("workers", "taken"),
    crossed([0, 2], [0, 1, 5, 7], fast=[(0, 0), (0, 1), (2, 5), (0, 7)]),
)
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


@pytest.mark.parametrize("workers", often([0, 1, 3], [0, 3]))
def test_iterable_datasets(feeds: Any, workers: int) -> None:
    loader = fluid.io.DataLoader(Stream(20), feeds, CPU, batch_size=3, num_workers=workers)
    seen = [ids(data) for data in loader]
    assert sorted(flat(seen)) == list(range(20))
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
        text = f"worker {number} is {info.id} of {info.num_workers}\n"
        os.write(1, text.encode())  # at once: both workers write at the same time

    loader = fluid.io.DataLoader(
        Numbers(4), feeds, CPU, batch_size=2, num_workers=2, worker_init_fn=begin
    )
    assert len(list(loader)) == 2
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "worker 0 is 0 of 2",
        "worker 1 is 1 of 2",
    ]


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
    with pytest.raises(ValueError, match=r"field 0 .* different shapes"):
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
