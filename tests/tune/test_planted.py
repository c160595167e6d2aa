"""Problems planted in scripts that run are named, with the line where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refluid.tune.bench import Sessions
from refluid.tune.diagnosis import diagnose
from refluid.tune.evidence import Diagnosis
from refluid.tune.learned import Learned
from refluid.tune.session import Script
from refluid.tune.tuner import seen_by
from tests.tune.test_window import covered

NETWORK = """\
import os, time
import numpy as np
import paddle.fluid as fluid

def network(width=128, depth=3, rows=64):
    x, y = fluid.data("x", [None, width]), fluid.data("y", [None, 1], "int64")
    h = x
    for _ in range(depth):
        h = fluid.layers.fc(h, width, act="relu")
    out = fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(h, 10), y)
    loss = fluid.layers.mean(out)
    fluid.optimizer.SGD(1e-3).minimize(loss)
    feed = {"x": np.random.rand(rows, width).astype("float32"), "y": np.zeros((rows, 1), "int64")}
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe, x, y, h, loss, feed

took = 0.0  # seconds of the latest run, on however loaded a machine

def run(feed, fetched):
    global took
    begin = time.perf_counter()
    exe.run(feed=feed, fetch_list=fetched)
    took = time.perf_counter() - begin

"""
PLANTED = {
    "slow reader": """\
exe, x, y, h, loss, feed = network()
loader = fluid.io.DataLoader.from_generator([x, y], capacity=4)
def batches():
    while True:
        time.sleep(max(0.05, 3 * took))
        yield feed["x"], feed["y"]
loader.set_batch_generator(batches, fluid.CPUPlace())
for data in loader():
    run(data, [loss])
""",
    "data prepared between steps": """\
exe, x, y, h, loss, feed = network()
while True:
    run(feed, [loss])
    time.sleep(max(0.05, 3 * took))  # prepares
""",
    "copy each step": """\
exe, x, y, h, loss, feed = network(1024, 3, 8)
names = [one.name for one in fluid.default_main_program().all_parameters()]
while True:
    run(feed, [loss])
    end = time.perf_counter() + max(0.02, took)
    while time.perf_counter() < end:
        kept = [np.array(fluid.global_scope().find_var(one).get_tensor()) for one in names]
""",
    "large fetch": """\
exe, x, y, h, loss, feed = network(1024, 1, 1024)
while True:
    exe.run(feed=feed, fetch_list=[loss, h])
""",
    "too many threads": """\
exe, x, y, h, loss, feed = network(64)
how = fluid.ExecutionStrategy()
how.num_threads = 500
program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
    loss.name, exec_strategy=how, places=[fluid.CPUPlace()])
while True:
    exe.run(program, feed=feed, fetch_list=[loss])
""",
    "many small parameters": """\
x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1])
parts = [fluid.layers.fc(x, 4) for _ in range(500)]
out = fluid.layers.fc(fluid.layers.sums(parts), 1)
loss = fluid.layers.mean(fluid.layers.square(out - y))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.random.rand(16, 8).astype("float32"), "y": np.zeros((16, 1), "float32")}
while True:
    exe.run(feed=feed, fetch_list=[loss])
""",
    "garbage kept": """\
fluid.set_flags({"FLAGS_eager_delete_tensor_gb": -1.0})
exe, x, y, h, loss, feed = network(256, 8, 256)
while True:
    exe.run(feed=feed, fetch_list=[loss])
""",
}
LINES = {
    "data prepared between steps": "# prepares",
    "copy each step": "get_tensor",
}


def diagnosed(folder: Path, source: str, learned: Learned) -> Diagnosis:
    path = folder / "train.py"
    path.write_text(NETWORK + source)
    sessions = Sessions(Script([str(path)], unprotected=not covered()), lambda _text: None)
    try:
        return diagnose(seen_by(sessions.default(), lambda _text: None, learned))
    finally:
        sessions.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_it_is_named(name: str, tmp_path: Path, learned: Learned) -> None:
    causes = {one.name: one for one in diagnosed(tmp_path, PLANTED[name], learned).causes}
    assert name in causes
    assert LINES.get(name, "") in "".join(causes[name].lines)
    others = set(causes) - {name}
    assert not others & (set(PLANTED) - {"data prepared between steps", "large fetch"})


@contextmanager
def busy() -> Iterator[None]:
    """Twice as many processes as cores do nothing but take time."""
    count = 2 * len(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


@pytest.mark.slow
def test_load_by_others_is_named(tmp_path: Path, learned: Learned) -> None:
    source = "exe, x, y, h, loss, feed = network(64)\nwhile True:\n    exe.run(feed=feed)\n"
    with busy():
        causes = {one.name for one in diagnosed(tmp_path, source, learned).causes}
    assert "machine loaded by others" in causes
