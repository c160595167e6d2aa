"""The line that tells how far a pass is: on terminals only, and never in the output."""

from __future__ import annotations

import os
import pty
import re
import threading
from pathlib import Path

import pytest

from tests.started import start

SCRIPT = """
import sys, time
import paddle.fluid as fluid
x = fluid.data("x", [None, 1], "int64")
fluid.layers.py_func(lambda rows: time.sleep(0.02), x, None)
y = fluid.layers.mean(fluid.layers.cast(x, "float32"))
dataset = fluid.DatasetFactory().create_dataset(sys.argv[2])
dataset.set_use_var([x])
dataset.set_batch_size(10)
dataset.set_filelist([sys.argv[1]])
if sys.argv[2] == "InMemoryDataset":
    dataset.load_into_memory()
exe = fluid.Executor()
exe.train_from_dataset(
    fluid.default_main_program(), dataset, fetch_list=[y], fetch_info=["seen"], print_period=10)
print("the end")
"""


def run(folder: Path, kind: str, *, errors: bool, output: bool, watch: bool) -> tuple[str, str]:
    """What a terminal shows, and what standard output gets where that is no terminal."""
    script, data = folder / "train.py", folder / "data"
    script.write_text(SCRIPT)
    data.write_text("".join(f"1 {k}\n" for k in range(400)))
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def look() -> None:
        try:
            while part := os.read(ours, 1 << 16):
                shown.append(part)
        except OSError:
            pass  # how a terminal says that its other side is closed

    command = ["run", *(["--watch"] if watch else []), str(script), str(data), kind]
    with (folder / "rest").open("w+b") as rest:
        process = start(
            *("-m", "refluid.cli.main", *command),
            streams=[0, *(theirs if shows else rest.fileno() for shows in (output, errors))],
            environment={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(theirs)
        looking = threading.Thread(target=look)
        looking.start()
        try:
            status = process.wait(900)
        finally:
            process.kill()
        looking.join()
        os.close(ours)
        rest.seek(0)
        other = rest.read().decode()
    assert status == 0, (shown, other)
    return b"".join(shown).decode(), other


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_a_terminal_shows_how_far_it_is(tmp_path: Path, kind: str) -> None:
    shown, out = run(tmp_path, kind, errors=True, output=False, watch=False)
    unit = "bytes" if kind == "QueueDataset" else "rows"
    assert re.search(rf"train_from_dataset .*\d+% of the {unit}, \d+ rows, \d+ rows/s", shown)
    assert out.count("seen\nVariable: ") == 4 and out.endswith("the end\n")
    assert "train_from_dataset" not in out


def test_output_stays_above_the_line(tmp_path: Path) -> None:
    shown, _ = run(tmp_path, "QueueDataset", errors=True, output=True, watch=False)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert plain.count("Variable: mean_0.tmp_0\r\n") == 4 and "the end\r\n" in plain


def test_elsewhere_nothing_is_shown(tmp_path: Path) -> None:
    shown, out = run(tmp_path, "QueueDataset", errors=False, output=True, watch=False)
    assert "rows/s" not in shown + out and "the end" in shown


def test_watching_shows_readers_live_and_sums_up(tmp_path: Path) -> None:
    shown, out = run(tmp_path, "QueueDataset", errors=True, output=False, watch=True)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert re.search(r"reader +produces +consumed +waited +queue +batches", plain)
    # Which of them waits follows from what else the machine does.
    verdict = r"(compute-bound|reader-bound|balanced)"
    assert re.search(rf"dataset +{verdict} +\S+/s +\S+/s +\d+% +\S+ of 2 +\d+", plain)
    assert "train_from_dataset" in plain
    assert re.search(rf"refluid: dataset: {verdict}; produces", plain)
    assert "train_from_dataset" not in out
