"""Ctrl-C while threads are joined: those who join them again still wait for their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from refluid import fluid
from refluid.feed.text_datasets.threads import Producers
from refluid.fluid.datasets import in_memory as dataset_in_memory
from tests.interrupting import Lingering, interrupted_in


def test_producers_stopped_again() -> None:
    work = Lingering()

    def make() -> Iterator[None]:
        work()
        yield

    producers = Producers([make], 1, lambda: None, "test")  # type: ignore[list-item]
    producers.start()
    with interrupted_in("join"):
        producers.stop()
    work.end()
    producers.stop()
    assert work.over


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
