"""Processes that are forked with torch in them do what those do that Python starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.started import run, start

TOLD = """
import json, os, signal, sys
own = {name: os.environ[name] for name in ("PATH", "FLAGS_selected_gpus") if name in os.environ}
spec = __spec__ and __spec__.name
print(sys.argv, sys.path, os.getcwd(), __name__, __package__, spec, own, sys.modules[__name__].TWO)
print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGCHLD), file=sys.stderr)
print(vars().get("__file__"), "refluid" in sys.modules)
"""


@pytest.mark.parametrize("way", ["-c", "-m", "package", "file"])
def test_they_are_as_others(way: str, tmp_path: Path) -> None:
    text = f"TWO = 2{TOLD}raise SystemExit(7)\n"
    (tmp_path / "inner").mkdir()
    for file in ("told.py", "inner/__init__.py", "inner/__main__.py"):
        (tmp_path / file).write_text("" if "init" in file else text)
    said = {
        "-c": ["-c", text],
        "-m": ["-m", "told"],
        "package": ["-m", "inner"],
        "file": [str(tmp_path / "told.py")],
    }[way] + ["one", "--two"]
    environment = {**os.environ, "FLAGS_selected_gpus": "3"}
    usual = subprocess.run(
        [sys.executable, *said], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    forked = run(*said, folder=tmp_path, environment=environment)
    assert forked.stdout == usual.stdout and "FLAGS_selected_gpus" in usual.stdout
    assert (forked.stderr, forked.returncode) == (usual.stderr, usual.returncode)
    assert forked.returncode == 7


ENDS = ["", "raise SystemExit('why')", "raise SystemExit(300)", "1 / 0", "raise KeyboardInterrupt"]


@pytest.mark.parametrize("last", ENDS)
def test_they_end_as_others(last: str) -> None:
    """All threads are joined, what is to be called at the end is, and all is written."""
    text = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'at the end')\n"
        "late = lambda: [time.sleep(0.1), print('a thread')]\n"
        "threading.Thread(target=late).start()\n"
    )
    usual = subprocess.run([sys.executable, "-c", text + last], capture_output=True, text=True)
    forked = run("-c", text + last)
    assert forked.stdout == usual.stdout == "a thread\nat the end\n"
    assert forked.returncode == usual.returncode
    assert forked.stderr.splitlines()[-1:] == usual.stderr.splitlines()[-1:]


def test_each_draws_and_orders_by_itself(tmp_path: Path) -> None:
    code = "import numpy, random; print(numpy.random.rand(), random.random())"
    assert len({run("-c", code).stdout for _ in range(3)}) == 3
    for number in range(2):
        with (tmp_path / str(number)).open("w") as out:
            streams = [0, out.fileno(), 2]
            told = {**os.environ, "OMP_NUM_THREADS": "1"}  # as trainers of other tests have
            hashed = start(
                "-c", "print(hash('text'))", environment=told, streams=streams, nth=number
            )
            assert hashed.wait(60) == 0
    one, other = ((tmp_path / str(number)).read_text() for number in range(2))
    assert one != other or "PYTHONHASHSEED" in os.environ


def test_they_are_waited_for_and_ended() -> None:
    long = start("-c", "import time; time.sleep(100)")
    assert long.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        long.wait(0.05)
    short = start("-c", "pass")
    assert short.wait(60) == 0 and long.poll() is None
    long.kill()
    assert long.wait(60) == -signal.SIGKILL
    long.kill()
    with pytest.raises(subprocess.CalledProcessError):
        run("-c", "raise SystemExit(2)", check=True)
