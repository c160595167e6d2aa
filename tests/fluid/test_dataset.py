"""train_from_dataset and infer_from_dataset: every row once, by any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import as_lod
from refluid.engine import prepare
from refluid.engine.choices import choosing
from refluid.engine.strategy_file import checked
from refluid.fluid.executor import FetchHandler
from tests.choices import crossed, often
from tests.feed.leftovers import assert_nothing_left
from tests.fluid.dataset_network import COUNTS, KINDS, TOTAL, Network, write_files


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield
    assert_nothing_left()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path)


@pytest.mark.parametrize(
    ("kind", "threads", "command"),
    crossed(
        KINDS,
        [1, 2, 4, 9],
        ["cat", "sed s/x/y/"],
        fast=[
            ("QueueDataset", 1, "sed s/x/y/"),
            ("InMemoryDataset", 2, "cat"),
            ("QueueDataset", 4, "cat"),
            ("InMemoryDataset", 9, "sed s/x/y/"),
            ("QueueDataset", 9, "cat"),
        ],
    ),
)
def test_each_row_is_trained_exactly_once(
    files: list[str], kind: str, threads: int, command: str
) -> None:
    network = Network()
    dataset = network.dataset(kind, files, threads)
    dataset.set_pipe_command(command)
    for shuffle in ("local_shuffle", "global_shuffle", ""):
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
            assert dataset.get_memory_data_size() == TOTAL
            if shuffle:
                getattr(dataset, shuffle)()
        network.seen.clear()
        network.train(dataset)
        assert sorted(network.seen) == list(range(TOTAL))


def test_one_thread_trains_as_exe_run_does(files: list[str]) -> None:
    network = Network()
    start = network.parameters()
    network.train(network.dataset("QueueDataset", files))
    trained = network.parameters()
    for name, value in start.items():
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
    dataset = network.dataset("InMemoryDataset", files)
    dataset.load_into_memory()
    feed = dataset.feed(1)
    feed.start()
    for _ in range(-(-TOTAL // 16)):
        batch = feed.take()
        fed = {
            name: fluid.LoDTensor(tensor, as_lod(lod))
            for name, tensor, lod in zip(dataset.names, batch.tensors, batch.lods, strict=True)
        }
        network.exe.run(fluid.default_main_program(), fed)
    feed.stop()
    for name, value in network.parameters().items():
        np.testing.assert_array_equal(value, trained[name])


@pytest.mark.parametrize("threads", often([1, 3], [3]))
def test_training_lowers_the_loss(files: list[str], threads: int) -> None:
    network = Network()
    dataset = network.dataset("InMemoryDataset", files, threads)
    dataset.load_into_memory()
    handler = _Losses({"loss": network.loss}, 0.001)
    for _ in range(30):
        dataset.local_shuffle()
        network.train(dataset, fetch_handler=handler)
    assert np.mean(handler.found[-5:]) < 0.8 * np.mean(handler.found[:5])


class _Losses(FetchHandler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.found: list[float] = []

    def handler(self, res_dict: Any) -> None:
        if res_dict["loss"] is not None:
            self.found.append(float(res_dict["loss"].reshape(-1)[0]))


def test_inference_changes_nothing(files: list[str]) -> None:
    network = Network()
    before = network.parameters()
    network.exe.infer_from_dataset(
        fluid.default_main_program(), network.dataset("QueueDataset", files, 2)
    )
    assert sorted(network.seen) == list(range(TOTAL))
    for name, value in network.parameters().items():
        np.testing.assert_array_equal(value, before[name])


def test_what_is_printed(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    network = Network()
    dataset = network.dataset("QueueDataset", files)
    network.train(dataset, fetch_list=[network.loss], fetch_info=["the loss"], print_period=5)
    text = capsys.readouterr().out
    batches = -(-TOTAL // 16)
    assert text.count("the loss\nVariable: mean_0.tmp_0\n\tlod: {}\n\tdim: 1\n") == batches // 5
    assert text.count("\tlayout: NCHW\n\tdtype: float\n\tdata: [") == batches // 5
    network.train(dataset, debug=True)
    text = capsys.readouterr().out
    assert f"thread 0: {batches} batches, {TOTAL} instances; read " in text
    assert "IO percent" in text and "instances/s" in text
    assert "  sequence_pool " in text and "mean time" in text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("places", "drop_last"), [(1, True), (1, False), (2, True), (2, False)])
def test_a_loader_gives_the_same_batches(
    files: list[str], kind: str, places: int, drop_last: bool
) -> None:
    network = Network()
    dataset = network.dataset(kind, files)
    if kind == "InMemoryDataset":
        dataset.load_into_memory()
    loader = fluid.io.DataLoader.from_dataset(dataset, fluid.cpu_places(places), drop_last)
    for _ in range(2):
        steps = list(loader())
        found = [np.array(one["row"]).ravel().tolist() for step in steps for one in step]
        assert [row for rows in found for row in rows] == list(
            range(TOTAL - TOTAL % (16 * places) * drop_last)
        )
        assert [len(step) for step in steps[:-1]] == [places] * (len(steps) - 1)
    for step in loader:  # ended early
        assert step[0]["words"].lod()[0][-1] == len(np.array(step[0]["words"]))
        break


def test_preload_release_and_sizes(files: list[str]) -> None:
    network = Network()
    dataset = network.dataset("InMemoryDataset", files, 2)
    dataset.preload_into_memory()
    dataset.wait_preload_done()
    assert dataset.get_memory_data_size() == TOTAL
    assert dataset.get_shuffle_data_size() == 0
    dataset.global_shuffle()
    assert dataset.get_shuffle_data_size() == TOTAL
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0
    dataset.set_filelist([files[0], files[0] + "-missing"])
    dataset.preload_into_memory()
    with pytest.raises(EnforceNotMet, match="-missing: cannot be read"):
        dataset.wait_preload_done()


def test_shuffles_repeat_after_numpy_seed(files: list[str]) -> None:
    network = Network()
    dataset = network.dataset("InMemoryDataset", files)
    orders = []
    for seed in (5, 5, 6):
        dataset.load_into_memory()
        np.random.seed(seed)
        dataset.local_shuffle()
        network.seen.clear()
        network.train(dataset)
        orders.append(list(network.seen))
    assert orders[0] == orders[1] != orders[2]


def test_slots_shuffle(files: list[str]) -> None:
    network = Network()
    dataset = network.dataset("InMemoryDataset", files)
    dataset.load_into_memory()
    with pytest.raises(EnforceNotMet, match="needs set_fea_eval"):
        dataset.slots_shuffle(["words"])
    dataset.set_fea_eval(1000, True)
    with pytest.raises(ValueError, match="there is no slot 'nothing'"):
        dataset.slots_shuffle(["nothing"])
    dataset.slots_shuffle(["row"])
    network.train(dataset)
    assert sorted(network.seen) == list(range(TOTAL)) != network.seen
    network.seen.clear()
    dataset.slots_shuffle(["words", "x"])
    network.train(dataset)
    assert network.seen == list(range(TOTAL))


def test_lines_may_begin_with_an_id(files: list[str]) -> None:
    network = Network()
    dataset = network.dataset("InMemoryDataset", files[:1])
    dataset.set_pipe_command("sed 's/^/1 some-id 1 content /'")
    dataset.set_parse_content(True)
    dataset.set_parse_ins_id(True)
    dataset.load_into_memory()
    network.train(dataset)
    assert network.seen == list(range(COUNTS[0]))


def test_a_strategy_file_acts_on_training_too(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    rewrite = prepare.rewrite

    def noted(program: Any, settings: Any, *others: Any) -> Any:
        seen.append(settings[0].strategy.enable_inplace)
        return rewrite(program, settings, *others)

    monkeypatch.setattr(prepare, "rewrite", noted)
    network = Network()
    network.train(network.dataset("QueueDataset", files))
    with choosing(checked({"build": {"enable_inplace": False}}, "a test")):
        network.train(network.dataset("QueueDataset", files))
    assert seen and set(seen) == {True, False}
