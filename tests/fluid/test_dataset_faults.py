"""Faults while a dataset is trained on: one clear error, rows counted, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.feed.multislot.parsing import BadLine
from refluid.feed.text_datasets.pipe import PipeFailed
from tests.choices import often
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
    assert len(network.seen) >= 16 and len(set(network.seen)) == len(network.seen)
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


def _wait_for_child(script: subprocess.Popen[str], name: str) -> list[psutil.Process]:
    """All that a script started, as soon as a process of that name is among it."""
    children: list[psutil.Process] = []
    while not any(one.name() == name for one in children):
        assert script.poll() is None
        time.sleep(0.05)
        children = psutil.Process(script.pid).children(recursive=True)
    return children


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("command", "threads"),
    [("yes 1 7", "1"), pytest.param("sleep 100", "2", marks=pytest.mark.slow)],
)
def test_ctrl_c_ends_everything(tmp_path: Path, command: str, threads: str) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("1 1\n")
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, command, threads, *map(str, files)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert script.stdout is not None and script.stdout.readline() == "ready\n"
    _wait_for_child(script, command.split()[0])
    script.send_signal(signal.SIGINT)
    out, _ = script.communicate(timeout=300)
    assert script.returncode == 0
    assert out.startswith("interrupted [") and "rows in" in out and out.endswith("[]\n")


@pytest.mark.parametrize("how", often([signal.SIGTERM, signal.SIGKILL], [signal.SIGKILL]))
def test_commands_end_with_a_killed_process(tmp_path: Path, how: int) -> None:
    file = tmp_path / "a"
    file.write_text("1 1\n")
    command = "sleep 100; true"
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, command, "1", str(file)], stdout=subprocess.PIPE, text=True
    )
    assert script.stdout is not None and script.stdout.readline() == "ready\n"
    children = _wait_for_child(script, "sleep")
    script.send_signal(how)
    script.communicate(timeout=300)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive and script.returncode == -how


def test_a_data_generator_in_a_pipe_command(tmp_path: Path, files: list[str]) -> None:
    """`python` is the one that runs here, whatever the path says, and imports no torch."""
    generator = tmp_path / "generator.py"
    generator.write_text(
        textwrap.dedent("""
        import sys
        import paddle.fluid.incubate.data_generator as dg

        assert not {"torch", "numpy", "numba"} & set(sys.modules)
        assert sys.executable == sys.argv[1], sys.executable

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
    script = SCRIPT.replace("use_var([x])", "use_var([x, fluid.data('z', [None, 3])])")
    script = script.replace(
        "program(), dataset", "program(), dataset, fetch_list=[y], print_period=1"
    )
    python = Path(sys.executable).with_name("python")
    if not python.exists():
        pytest.skip(f"there is no {python}")
    arguments = [f"python {generator} {python}", "1", str(raw)]
    done = subprocess.run(
        [python, "-c", script, *arguments],
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "data: [15.5]" in done.stdout and "data: [40.5]" in done.stdout
