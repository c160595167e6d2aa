"""train_from_dataset and infer_from_dataset: every row once, by any number of threads."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.feed.dataset_pipe import PipeFailed
from refluid.feed.multislot import BadLine
from refluid.fluid import layers
from refluid.fluid.executor import FetchHandler
from tests.feed.leftovers import assert_nothing_left

KINDS = ("QueueDataset", "InMemoryDataset")
COUNTS = (40, 61, 7, 100, 33)
TOTAL = sum(COUNTS)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    programs = fluid.program_guard(fluid.Program(), fluid.Program())
    with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        yield
    assert_nothing_left()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Rows with counted ids, 1 to 4 words, 3 numbers and a label that is easy to learn."""
    source = random.Random(3)
    row, paths = 0, []
    for count in COUNTS:
        lines = []
        for _ in range(count):
            words = [source.randrange(50) for _ in range(source.randint(1, 4))]
            x = [source.random() for _ in range(3)]
            text = f"1 {row} {len(words)} {' '.join(map(str, words))}"
            lines.append(f"{text} 3 {' '.join(map(str, x))} 1 {int(x[0] > 0.5)}\n")
            row += 1
        path = tmp_path / f"part-{len(paths)}"
        path.write_text("".join(lines))
        paths.append(str(path))
    return paths


class Network:
    """A small classifier that notes the ids of the rows it sees."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: list[int] = []
        self._lock = threading.Lock()
        self._fails_at = fails_at
        row = fluid.data("row", [None, 1], "int64")
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        x = fluid.data("x", [None, 3])
        label = fluid.data("label", [None, 1], "int64")
        self.variables = [row, words, x, label]
        layers.py_func(self._note, row, None)
        pooled = layers.sequence_pool(fluid.embedding(words, [50, 4], is_sparse=True), "sum")
        out = layers.fc(layers.fc([pooled, x], 8, act="relu"), 2, act="softmax")
        self.loss = layers.mean(layers.cross_entropy(out, label))
        fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.exe = fluid.Executor()
        self.exe.run(fluid.default_startup_program())

    def _note(self, rows: Any) -> None:
        found = np.array(rows).ravel().tolist()
        if self._fails_at in found:
            raise ValueError("the operator fails")
        with self._lock:
            self.seen += found

    def dataset(self, kind: str, files: list[str], threads: int = 1, size: int = 16) -> Any:
        made = fluid.DatasetFactory().create_dataset(kind)
        made.set_use_var(self.variables)
        made.set_batch_size(size)
        made.set_thread(threads)
        made.set_filelist(files)
        return made

    def train(self, dataset: Any, **options: Any) -> None:
        self.exe.train_from_dataset(fluid.default_main_program(), dataset, **options)

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        scope = fluid.global_scope()
        return {
            one.name: np.array(scope.find_var(one.name).get_tensor())
            for one in fluid.default_main_program().all_parameters()
        }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 4, 9])
@pytest.mark.parametrize("command", ["cat", "sed s/x/y/"])
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
    for _ in range(-(-TOTAL // 16)):
        batch = feed.take()
        fed = {
            name: fluid.LoDTensor(tensor, lod)
            for name, tensor, lod in zip(dataset.names, batch.tensors, batch.lods, strict=True)
        }
        network.exe.run(fluid.default_main_program(), fed)
    feed.stop()
    for name, value in network.parameters().items():
        np.testing.assert_array_equal(value, trained[name])


@pytest.mark.parametrize("threads", [1, 3])
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
    assert text.count("mean time") == len(fluid.default_main_program().global_block().ops)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_bad_line_stops_training_and_rows_are_counted(
    files: list[str], kind: str, threads: int
) -> None:
    network = Network()
    with open(files[1], "a") as file:
        file.write("1 5\n")
    dataset = network.dataset(kind, files, threads)
    reason = r"part-1, line 62: the line ends before slot 'words' \(number 2 of 4\)"
    if kind == "InMemoryDataset":
        with pytest.raises(BadLine, match=reason):
            dataset.load_into_memory()
        with pytest.raises(EnforceNotMet, match="call load_into_memory"):
            network.train(dataset)
        return
    with pytest.raises(BadLine, match=reason) as caught:
        network.train(dataset)
    assert len(network.seen) >= 96 and len(set(network.seen)) == len(network.seen)
    assert any(f"{len(network.seen)} rows in " in note for note in caught.value.__notes__)
    dataset.set_skip_bad_lines()
    network.seen.clear()
    network.train(dataset)
    assert sorted(network.seen) == list(range(TOTAL))


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_operator_or_command_stops_all_threads(files: list[str], threads: int) -> None:
    network = Network(fails_at=120)
    with pytest.raises(EnforceNotMet, match="the operator fails") as caught:
        network.train(network.dataset("QueueDataset", files, threads))
    assert any("rows in " in note for note in caught.value.__notes__)
    assert_nothing_left()
    dataset = network.dataset("QueueDataset", files, threads)
    dataset.set_pipe_command("head -3; exit 7")
    with pytest.raises(PipeFailed, match="'head -3; exit 7' ended with status 7"):
        network.train(dataset)


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


SCRIPT = """
import sys, threading
import refluid.paddle
refluid.paddle.install()
import paddle.fluid as fluid
x = fluid.data("x", [None, 1], "int64")
y = fluid.layers.mean(fluid.layers.cast(x, "float32"))
exe = fluid.Executor()
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x])
dataset.set_pipe_command(sys.argv[1])
dataset.set_thread(int(sys.argv[2]))
dataset.set_filelist(sys.argv[3:])
try:
    print("ready", flush=True)
    exe.train_from_dataset(fluid.default_main_program(), dataset)
except KeyboardInterrupt as error:
    ours = [one.name for one in threading.enumerate() if one.name.startswith("refluid")]
    print("interrupted", error.__notes__, ours)
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("command", ["yes 1 7", "sleep 100"])
def test_ctrl_c_ends_everything(tmp_path: Path, threads: str, command: str) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("1 1\n")
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, command, threads, *map(str, files)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert script.stdout is not None and script.stdout.readline() == "ready\n"
    time.sleep(1.5)
    script.send_signal(signal.SIGINT)
    out, _ = script.communicate(timeout=30)
    assert script.returncode == 0
    assert out.startswith("interrupted [") and "rows in" in out and out.endswith("[]\n")


def test_a_data_generator_in_a_pipe_command(tmp_path: Path, files: list[str]) -> None:
    generator = tmp_path / "generator.py"
    generator.write_text(
        textwrap.dedent("""
        import paddle.fluid.incubate.data_generator as dg

        class Lines(dg.MultiSlotDataGenerator):
            def generate_sample(self, line):
                def samples():
                    row, *rest = [float(one) for one in line.split()]
                    yield [("row", [int(row)]), ("x", rest)]
                return samples

        Lines().run_from_stdin()
        """)
    )
    raw = tmp_path / "raw"
    raw.write_text("".join(f"{k} {k / 7} 2 3\n" for k in range(50)))
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT.replace(
                "dataset.set_use_var([x])",
                'dataset.set_use_var([x, fluid.data("z", [None, 3])])\n'
                "fluid.layers.Print(x, first_n=1)",
            ),
            f"{sys.executable} {generator}",
            "1",
            str(raw),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert out.returncode == 0, out.stdout
