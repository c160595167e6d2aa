"""However a program ends, its readers leave no process, and the program does not hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

PROGRAM = """
import os, sys, time
import numpy as np
from refluid import fluid

def batches():
    while True:
        yield [np.zeros((64, 1024), "float32")]

class Numbers(fluid.io.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index): return np.full(50000, index, "float32")

x = fluid.data("x", [None, 1024])
y = fluid.data("y", [None, 50000])
place = fluid.CPUPlace()
threaded = fluid.io.DataLoader.from_generator([x], 4).set_batch_generator(batches, place)
forked = fluid.io.DataLoader.from_generator([x], 4, use_multiprocess=True)
forked.set_batch_generator(batches, place)
dataset = fluid.io.DataLoader(Numbers(), [y], place, batch_size=4, num_workers=2)
merged = fluid.io.multiprocess_reader([batches, batches])
mapped = fluid.io.xmap_readers(lambda batch: batch, batches, 2, 4)
passes = [iter(one()) for one in (threaded, forked, dataset, merged, mapped)]
for one in passes:
    next(one), next(one)
print("ready", flush=True)
"""
ENDINGS = {
    "normal": "",
    "exit": "sys.exit(7)",
    "exception": "raise RuntimeError('over')",
    "waiting": "time.sleep(60)",
    "consuming": "while True: [next(one) for one in passes]",
}


def _start(ending: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + ENDINGS[ending]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).resolve().parents[2],
    )


def _end(process: subprocess.Popen[str], how: int | None) -> tuple[int, str]:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    if how is not None:
        time.sleep(0.2)
        os.killpg(process.pid, how) if how == signal.SIGINT else process.send_signal(how)
    _, errors = process.communicate(timeout=300)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    return process.returncode, errors


def _slow(*case: Any) -> Any:
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("ending", "how", "status", "said"),
    [
        _slow("normal", None, 0, ""),
        _slow("exit", None, 7, ""),
        _slow("exception", None, 1, "RuntimeError: over"),
        _slow("waiting", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
        ("consuming", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
        _slow("waiting", signal.SIGTERM, -signal.SIGTERM, ""),
        ("consuming", signal.SIGTERM, -signal.SIGTERM, ""),
        _slow("consuming", signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_end(ending: str, how: int | None, status: int, said: str) -> None:
    process = _start(ending)
    try:
        returned, errors = _end(process, how)
    finally:
        process.kill()
    assert returned == status, errors
    assert said in errors
    assert errors.count("Traceback") == (1 if said else 0), errors
