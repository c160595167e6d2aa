"""state_dict of datasets: what was trained is left out, exactly, and in the same order."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from tests.choices import crossed
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.dataset_network import KINDS, TOTAL, Network, write_files


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield
    assert_nothing_left()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path)


def made(network: Network, kind: str, files: list[str], threads: int, command: str) -> Any:
    dataset = network.dataset(kind, files, threads)
    dataset.set_pipe_command(command)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    return dataset


@pytest.mark.parametrize(
    ("stops_at", "command", "threads", "kind"),
    crossed(
        [5, 99, TOTAL - 1],
        ["cat", "sed s/x/y/"],
        [1, 3],
        KINDS,
        fast=[
            (5, "cat", 1, "QueueDataset"),
            (5, "sed s/x/y/", 3, "InMemoryDataset"),
            (99, "cat", 3, "QueueDataset"),
            (99, "sed s/x/y/", 1, "InMemoryDataset"),
            (TOTAL - 1, "sed s/x/y/", 3, "QueueDataset"),
            (TOTAL - 1, "cat", 1, "InMemoryDataset"),
        ],
    ),
)
def test_a_stopped_pass_goes_on_with_the_rows_that_were_left(
    files: list[str], tmp_path: Path, kind: str, threads: int, command: str, stops_at: int
) -> None:
    network = Network(fails_at=stops_at)
    dataset = made(network, kind, files, threads, command)
    if kind == "InMemoryDataset":
        dataset.local_shuffle()
    with pytest.raises(EnforceNotMet, match="the operator fails"):
        network.train(dataset)
    state = json.loads(json.dumps(dataset.state_dict()))
    before, network.seen = network.seen, []
    network._fails_at = -1
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    again = made(network, kind, [shutil.copy(one, moved) for one in files], threads, command)
    again.load_state_dict(state)
    assert json.loads(json.dumps(again.state_dict()))["dataset"] == state["dataset"]
    network.train(again)
    assert sorted(before + network.seen) == list(range(TOTAL))
    assert again.state_dict()["epoch"] == 1
    network.seen.clear()
    network.train(again)
    assert sorted(network.seen) == list(range(TOTAL))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True])
def test_parameters_become_the_same_as_without_a_stop(
    files: list[str], kind: str, late: bool
) -> None:
    network = Network()
    start = network.parameters()

    def shuffled(dataset: Any) -> None:
        if kind == "InMemoryDataset":
            dataset.local_shuffle()

    def begin() -> Any:
        for name, value in start.items():
            fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
        return made(network, kind, files, 1, "cat")

    whole = begin()
    np.random.seed(4)
    for _ in range(3):
        shuffled(whole)
        network.train(whole)
    wanted, order = network.parameters(), list(network.seen)

    stopped = begin()
    np.random.seed(4)
    network.seen.clear()
    shuffled(stopped)
    network.train(stopped)
    network._fails_at = order[TOTAL + 150]
    shuffled(stopped)
    with pytest.raises(EnforceNotMet, match="the operator fails"):
        network.train(stopped)
    network._fails_at = -1
    state, seen = stopped.state_dict(), list(network.seen)
    np.random.seed(99)
    stopped.local_shuffle() if kind == "InMemoryDataset" else None
    resumed = network.dataset(kind, files)
    if late:
        resumed.load_state_dict(state)
    if kind == "InMemoryDataset":
        resumed.load_into_memory()
    if not late:
        resumed.load_state_dict(state)
    for _ in range(2):
        shuffled(resumed)  # the first leaves the order of the stopped pass
        network.train(resumed)
    assert network.seen == order and len(seen) < len(order)
    for name, value in network.parameters().items():
        np.testing.assert_array_equal(value, wanted[name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("places", "drop_last"), [(1, True), (2, False)])
def test_a_loader_goes_on_with_the_next_step(
    files: list[str], kind: str, places: int, drop_last: bool
) -> None:
    network = Network()

    def rows(steps: Any) -> list[list[int]]:
        return [
            np.array(one["row"]).ravel().tolist()  #
            for step in steps
            for one in step
        ]

    def loader() -> Any:
        dataset = made(network, kind, files, 1, "cat")
        return fluid.io.DataLoader.from_dataset(dataset, fluid.cpu_places(places), drop_last)

    every = rows(loader()())
    for stop in (1, 3, len(every) // places):
        first, again = loader(), loader()
        steps = iter(first())
        taken = rows(next(steps) for _ in range(stop))
        again.load_state_dict(first.state_dict())
        steps.close()
        assert taken + rows(again()) == every
        assert rows(again()) == every


def test_packed_files_and_bad_lines(files: list[str], tmp_path: Path) -> None:
    texts = [Path(one).read_bytes().splitlines(keepends=True) for one in files]
    for path, text in zip(files, texts, strict=True):
        Path(path).write_bytes(gzip.compress(b"bad\n".join(text)))
    network = Network(fails_at=70)
    dataset = network.dataset("QueueDataset", files)
    dataset.set_skip_bad_lines()
    with pytest.raises(EnforceNotMet, match="the operator fails"):
        network.train(dataset)
    network._fails_at = -1
    dataset.load_state_dict(dataset.state_dict())
    network.train(dataset)
    assert network.seen == list(range(TOTAL))
    assert dataset.skipped_lines >= TOTAL - len(files)


def test_many_small_blocks_are_passed_over_without_parsing(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_text("".join(f"1 {k} 1 7 3 0 0 0 1 1{' ' * 300}\n" for k in range(20_000)))
    network = Network(fails_at=15_000)
    dataset = network.dataset("QueueDataset", [str(path)], size=100)
    with pytest.raises(EnforceNotMet, match="the operator fails"):
        network.train(dataset)
    assert network.seen == list(range(15_000))
    network._fails_at = -1
    dataset.load_state_dict(dataset.state_dict())
    network.train(dataset)
    assert network.seen == list(range(20_000))


def test_states_of_something_else(files: list[str]) -> None:
    network = Network()
    queue, memory = (network.dataset(kind, files) for kind in KINDS)
    loader = fluid.io.DataLoader.from_generator(network.variables, 2)
    loader.set_batch_generator(lambda: iter([]), fluid.CPUPlace())
    with pytest.raises(ValueError, match="state of a loader, not of a dataset"):
        queue.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="no state of a loader"):
        queue.load_state_dict({})
    with pytest.raises(ValueError, match="state of a QueueDataset, not of an InMemoryDataset"):
        memory.load_state_dict(queue.state_dict())
    feed = queue.feed(1)
    feed.start()
    feed.done.add(feed.take().spans)
    feed.stop()
    other = network.dataset("QueueDataset", files[:2])
    other.load_state_dict(queue.state_dict())
    with pytest.raises(ValueError, match="a pass over other files"):
        other.feed(1)
    memory.load_into_memory()
    feed = memory.feed(1)
    feed.start()
    feed.done.add(feed.take().spans)
    feed.stop()
    state = memory.state_dict()
    memory.set_filelist(files[:2])
    memory.load_into_memory()
    with pytest.raises(ValueError, match=f"is of {TOTAL} rows in memory, but there are 101"):
        memory.load_state_dict(state)
