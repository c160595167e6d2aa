"""Ctrl-C at each call in refluid as a dataset is loaded or trained on: nothing goes on reading."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet, EOFException
from refluid.feed.text_datasets.threads import Producers
from tests.feed.leftovers import assert_nothing_left
from tests.interrupting import InterruptedAt, interrupted_at_each_call, interruptible

# An interrupt right after a file was opened leaves it to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("ctrl_c"),
]
PARTS = ("/refluid/feed/", "/fluid/datasets/", "/fluid/reader/", "/refluid/core/whole_threads.py")
ROWS, ENDLESS = 30, "sleep 1000"


@pytest.fixture(params=["InMemoryDataset"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Two files, each read by a thread through a command."""
    for name in "ab":
        (tmp_path / name).write_text("".join(f"1 {row}\n" for row in range(ROWS // 2)))
    made = fluid.DatasetFactory().create_dataset(request.param)
    made.set_use_var([fluid.data("row", [None, 1], "int64")])
    made.set_thread(2)
    made.set_pipe_command(ENDLESS)
    made.set_filelist([str(tmp_path / name) for name in "ab"])
    return made


def _load(dataset: Any) -> None:
    dataset.load_into_memory()


def _preload(dataset: Any) -> None:
    dataset.preload_into_memory()
    dataset.release_memory()


def _wait(dataset: Any) -> None:
    dataset.preload_into_memory()
    dataset.wait_preload_done()


def _train(dataset: Any) -> None:
    fluid.Executor().train_from_dataset(fluid.default_main_program(), dataset, thread=2)


def _give(dataset: Any) -> None:
    list(fluid.io.DataLoader.from_dataset(dataset, fluid.CPUPlace())())


MEMORY, QUEUE = "InMemoryDataset", "QueueDataset"
WORKS = [(MEMORY, _load), (MEMORY, _preload), (MEMORY, _wait), (QUEUE, _train), (QUEUE, _give)]


@pytest.mark.parametrize(("dataset", "work"), WORKS, indirect=["dataset"])
def test_ctrl_c_at_any_call(
    dataset: Any, work: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read for ever. Whoever takes rows gets none, and isn't interrupted from then on: at
    the end of the rows nothing reads any more."""

    def no_rows(*_: int) -> None:
        sys.setprofile(None)
        raise EOFException("none")

    monkeypatch.setattr(Producers, "take", no_rows)
    at = 0
    for at in interrupted_at_each_call(lambda: work(dataset), parts=PARTS):
        if isinstance(dataset, fluid.dataset.InMemoryDataset):
            dataset.release_memory()
        try:
            assert_nothing_left()
        except AssertionError as error:
            error.add_note(f"after an interrupt at call {at}")
            raise
    assert at > 20


def test_a_preload_that_is_interrupted_twice_gives_no_part_of_the_rows(dataset: Any) -> None:
    """The second Ctrl-C comes as the first one ends what reads: that is done when it is needed."""
    for at in range(30):
        dataset.preload_into_memory()
        preloading = dataset._preloading
        while at % 2 and preloading._reading is None:  # else mostly before anything reads
            time.sleep(1e-4)

        def interrupted() -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch, interruptible():
            patch.setattr(preloading, "result", interrupted)
            with InterruptedAt(at, PARTS), pytest.raises(KeyboardInterrupt):
                dataset.wait_preload_done()
        if preloading is dataset._preloading and preloading._dropped:
            with pytest.raises(EnforceNotMet, match="call load_into_memory"):
                dataset.local_shuffle()
        dataset.release_memory()
        assert_nothing_left()
    dataset.set_pipe_command("tr x y")
    _wait(dataset)
    assert dataset.get_memory_data_size() == ROWS
