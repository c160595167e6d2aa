"""Ctrl-C while threads are joined: those who join them again still wait for their end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.feed.dataset_exchange import exchange
from refluid.feed.dataset_threads import Producers
from refluid.feed.multislot_columns import Columns
from refluid.fluid import dataset_in_memory
from tests.interrupting import Lingering, interrupted_in


def test_producers_stopped_again() -> None:
    work = Lingering()

    def make() -> Iterator[None]:
        work()
        yield

    producers = Producers([make], 1, lambda: None, "test")  # type: ignore[list-item]
    with interrupted_in("join"):
        producers.stop()
    work.end()
    producers.stop()
    assert work.over


class _Peers:
    """Two trainers, the other of which sends nothing."""

    rank, size, others = 0, 2, [1]

    def __init__(self) -> None:
        self.work = Lingering()
        self.close = self.work.end

    def all_gather(self, value: Any) -> list[Any]:
        return [value, value]

    def send(self, *_: Any) -> None:
        """Nobody gets it."""

    def receive(self, _: int) -> bytearray:
        self.work()
        raise EOFError


def test_an_exchange_ends_its_threads() -> None:
    peers = _Peers()
    columns = Columns(2, (np.arange(2),), (None,))
    with interrupted_in("join"):
        exchange(columns, peers, [7], 10)  # type: ignore[arg-type]
    assert peers.work.over


def test_preloading_ends_before_its_interrupt_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Lingering()

    class Reading:
        cancel = staticmethod(work.end)

    monkeypatch.setattr(dataset_in_memory, "start_reading", lambda _: Reading)
    monkeypatch.setattr(dataset_in_memory, "load_from", lambda *_: work())
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var([fluid.data("row", [None, 1], "int64")])
    dataset.set_filelist(["none"])
    dataset.preload_into_memory()
    with interrupted_in("join"):
        dataset.wait_preload_done()
    assert work.over
