"""Training threads of a dataset: all take batches or the first alone, and none waits for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.engine import active_threads
from refluid.engine.active_threads import ActiveThreads
from tests.adapting import AS_ASKED, Clock

pytestmark = pytest.mark.usefixtures("adaptive_threads")
layers = fluid.layers


def _goes(threads: ActiveThreads, number: int) -> bool:
    """Whether thread `number` may take a batch."""
    going = threading.Thread(target=threads.wait, args=(number,), daemon=True)
    going.start()
    going.join(60 if threads._all_go.is_set() or not number else 0.01)
    return not going.is_alive()


@pytest.mark.parametrize("seed", range(20))
def test_the_faster_way_is_kept(seed: int) -> None:
    random = np.random.default_rng(seed)
    together, alone = (float(10 ** random.uniform(-4, -1)) for _ in range(2))
    clock = Clock()
    threads = ActiveThreads(int(random.integers(2, 5)), clock)
    seen = set()
    while not threads._decided:
        threads.begin()
        for _ in range(int(random.integers(1, 400))):  # a pass ends within a slice, or after some
            seen.add(threads._all_go.is_set())
            clock.now += together if threads._all_go.is_set() else alone
            threads.note()
        threads.end()
        clock.now += 1e3  # what lies between passes counts for neither
    assert seen == {True, False}
    threads.begin()
    assert _goes(threads, 0)
    assert _goes(threads, 1) == (together < 1.03 * alone)
    threads.end()
    assert _goes(threads, 1)


@pytest.mark.parametrize("asked", AS_ASKED)
def test_flags_let_all_train(asked: Mapping[str, bool]) -> None:
    clock = Clock()
    threads = ActiveThreads(2, clock)
    with flags.override(asked):
        threads.begin()
        for _ in range(1000):
            clock.now += 1.0
            threads.note()
            assert threads._all_go.is_set()


@pytest.mark.parametrize("seed", range(5))
def test_none_waits_once_a_pass_is_over(seed: int) -> None:
    """What ends a pass, and steps that end afterwards, in any order."""
    random = np.random.default_rng(seed)
    clock = Clock()
    threads = ActiveThreads(2, clock)
    for _ in range(200):
        threads.begin()
        for _ in range(int(random.integers(0, 30))):
            clock.now += float(random.uniform(0.0, 0.2))
            threads.note()
        threads.end()
        for _ in range(int(random.integers(0, 30))):
            clock.now += float(random.uniform(0.0, 0.2))
            threads.note()
            assert threads._all_go.is_set()


class _Clicks:
    """A small network, and files of words and labels."""

    def __init__(self, folder: Path, rows: list[int], batch: int) -> None:
        random = np.random.default_rng(sum(rows))
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            words = fluid.data("words", [None, 1], "int64", lod_level=1)
            label = fluid.data("label", [None, 1], "int64")
            pooled = layers.sequence_pool(fluid.embedding(words, [50, 4], is_sparse=True), "sum")
            out = layers.fc(pooled, 2, act="softmax")
            fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.cross_entropy(out, label)))
        self.executor = fluid.Executor()
        self.executor.run(startup, scope=self.scope)
        self.paths = []
        for number, count in enumerate(rows):
            lines = []
            for _ in range(count):
                words = random.integers(0, 50, random.integers(1, 5))
                lines.append(f"{len(words)} {' '.join(map(str, words))} 1 {random.integers(2)}\n")
            self.paths.append(folder / str(number))
            self.paths[-1].write_text("".join(lines))
        self.dataset: Any = fluid.DatasetFactory().create_dataset("QueueDataset")
        self.dataset.set_batch_size(batch)
        self.dataset.set_use_var([self.main.global_block().var(n) for n in ("words", "label")])
        self.dataset.set_filelist([str(path) for path in self.paths])

    def train(self, threads: int) -> None:
        self.executor.train_from_dataset(self.main, self.dataset, self.scope, thread=threads)


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_trained_whoever_trains(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who trains changes every few steps."""
    random = np.random.default_rng(seed)
    monkeypatch.setattr(active_threads, "_SLICE", 0.0)
    monkeypatch.setattr(active_threads, "_EACH", int(random.integers(1, 4)))
    monkeypatch.setattr(active_threads, "_SLICES", 10**9)
    rows = random.integers(1, 120, random.integers(2, 6)).tolist()
    clicks = _Clicks(tmp_path, rows, int(random.integers(1, 9)))
    with caplog.at_level(logging.INFO, "refluid"):
        for _ in range(4):
            caplog.clear()
            clicks.train(int(random.integers(2, 5)))
            assert any(f"{sum(rows)} rows in" in one for one in caplog.messages)


def test_who_waits_ends_with_an_error_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_threads, "_SLICE", 0.0)
    monkeypatch.setattr(active_threads, "_SLICES", 10**9)
    clicks = _Clicks(tmp_path, [200, 200, 200], 2)
    clicks.train(3)
    for path in clicks.paths:
        path.write_text(path.read_text() + "9 nothing\n")
    for _ in range(4):
        with pytest.raises(EnforceNotMet):
            clicks.train(3)
