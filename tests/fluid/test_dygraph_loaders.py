"""Loaders where operators run at once: lists of variables, of the place that is current."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with fluid.dygraph.guard(fluid.CPUPlace()):
        yield


def _batches() -> Iterator[Any]:
    for number in range(3):
        yield np.full((4, 2), number, "float32"), np.full((4, 1), number, "int64")


def _samples() -> Iterator[Any]:
    for number in range(5):
        yield np.full((2,), number, "float32"), number


def _seen(loader: Any) -> list[tuple[Any, ...]]:
    found = []
    for batch in loader:
        assert all(isinstance(one, fluid.core.VarBase) and one.stop_gradient for one in batch)
        found.append(tuple(one.numpy().tolist() for one in batch))
    return found


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("place", [None, fluid.CPUPlace()])
def test_batches_of_a_generator(processes: bool, place: Any) -> None:
    loader = fluid.io.DataLoader.from_generator(capacity=2, use_multiprocess=processes)
    loader.set_batch_generator(_batches, place)
    wanted = [([[n, n]] * 4, [[n]] * 4) for n in range(3)]
    assert _seen(loader) == wanted
    assert _seen(loader()) == wanted


def test_samples_need_no_feed_list() -> None:
    loader = fluid.io.DataLoader.from_generator(capacity=2)
    loader.set_sample_generator(_samples, batch_size=2, drop_last=False)
    assert _seen(loader) == [
        ([[0, 0], [1, 1]], [0, 1]),
        ([[2, 2], [3, 3]], [2, 3]),
        ([[4, 4]], [4]),
    ]


def test_a_py_reader() -> None:
    reader = fluid.io.PyReader(capacity=2, return_list=True)
    reader.decorate_sample_list_generator(fluid.io.batch(_samples, batch_size=5), fluid.CPUPlace())
    ((_, numbers),) = _seen(reader())
    assert numbers == [0, 1, 2, 3, 4]


class _Numbers(fluid.io.Dataset):
    def __getitem__(self, index: int) -> Any:
        return np.full((2,), index, "float32"), np.array([index])

    def __len__(self) -> int:
        return 4


def test_a_dataset() -> None:
    loader = fluid.io.DataLoader(_Numbers(), batch_size=2)
    assert [numbers for _, numbers in _seen(loader)] == [[[0], [1]], [[2], [3]]]


def test_a_gradient_of_what_a_loader_gives() -> None:
    loader = fluid.io.DataLoader.from_generator(capacity=2)
    loader.set_batch_generator(_batches)
    layer = fluid.dygraph.Linear(2, 1)
    for values, _ in loader():
        fluid.layers.mean(layer(values)).backward()
    assert layer.weight.gradient().shape == (2, 1)


def test_what_dygraph_changes_is_said(caplog: pytest.LogCaptureFixture) -> None:
    fluid.io.PyReader(capacity=2, iterable=False, return_list=False)
    assert "iterable=False has no effect" in caplog.text
    assert "return_list=False has no effect" in caplog.text
