"""`refluid prepare` makes all loops; programs that come then compile nothing."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import refluid
from refluid import kernels
from refluid.cli import practice, prepare
from refluid.core import flags, threads
from refluid.feed import multislot
from refluid.kernels.compiled import CompiledLoop
from refluid.kernels.machine_code import linker
from refluid.runtime import adaptive
from tests.interrupting import interrupted_in

pytestmark = pytest.mark.skipif(not linker(), reason="no linker, or not Linux")
# Runs a practice program where numba can't be imported.
_WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from refluid.cli.practice import PROGRAMS
PROGRAMS[{name!r}]()
"""


def loops() -> Iterator[CompiledLoop]:
    """All that refluid has."""
    for package in (kernels, multislot):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            yield from (one for one in vars(module).values() if isinstance(one, CompiledLoop))


def called_by(loop: CompiledLoop) -> Iterator[CompiledLoop]:
    """The loops that become parts of it."""
    known = loop.function.__globals__
    for name in loop.function.__code__.co_names:
        if isinstance(one := known.get(name), CompiledLoop):
            yield one
            yield from called_by(one)


@pytest.fixture
def two_threads() -> Iterator[None]:
    own = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(own)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("two_threads")
def test_the_programs_use_all_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the programs before had found the machine so loaded that they left a thread out.
    monkeypatch.setattr(threads, "_AT_START", 2)
    monkeypatch.setattr(adaptive, "_latest", (1, 2))
    with flags.override({"FLAGS_refluid_adaptive_threads": True}):
        for program in practice.PROGRAMS.values():
            program()
    inner = {id(one) for loop in loops() for one in called_by(loop)}
    unused = {
        f"{loop.function.__module__}.{loop.function.__name__}"
        for loop in loops()
        if id(loop) not in inner and not loop.is_used
    }
    assert unused == set()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """refluid's source without what was compiled of it."""
    own = Path(refluid.__file__).parent
    copied = tmp_path / "source" / own.name
    shutil.copytree(own, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied.parent


def run(source: Path, home: Path, *command: str, writes: bool = False) -> Any:
    """What a command ended with, which compiles refluid anew. writes: also beside the source."""
    own = {"HOME": str(home), "PYTHONPATH": str(source)}
    env = os.environ | own | {"PYTHONDONTWRITEBYTECODE": "" if writes else "1"}
    return subprocess.run(
        [sys.executable, *command], env=env, text=True, capture_output=True, timeout=600
    )


@pytest.mark.parametrize("writes", [False, True])
def test_what_was_prepared_is_not_compiled_again(
    source: Path, tmp_path: Path, writes: bool
) -> None:
    script = _WITHOUT_NUMBA.format(name="search")
    before = run(source, tmp_path, "-c", script)
    assert before.returncode == 1
    assert "numba" in before.stderr
    practice = run(source, tmp_path, "-m", "refluid.cli.practice", "search", writes=writes)
    assert practice.returncode == 0
    beside = list(source.rglob("__pycache__/choose_beams*.so"))
    assert len(beside) == writes
    after = run(source, tmp_path, "-c", script)
    assert after.returncode == 0, after.stderr


def test_loops_that_can_not_be_kept_are_told(source: Path, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.touch()
    done = run(source, home, "-m", "refluid.cli.practice", "search")
    assert done.returncode == 1
    assert "choose_beams isn't kept: no folder takes it" in done.stderr


def test_a_program_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(practice, "PROGRAMS", {"absent": practice.search})
    with pytest.raises(BaseException) as ended:
        prepare.prepare()
    assert getattr(ended.value, "exit_code", None) == 1
    told = capfd.readouterr().err
    assert "failed absent" in told
    assert "KeyError: 'absent'" in told


def test_ctrl_c_ends_what_runs_and_begins_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import sys, time\nopen(sys.argv[1], 'x').close()\ntime.sleep(300)\n"
    (tmp_path / "sleeping.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.import_module("refluid.cli.prepare"), "_PRACTICE", "sleeping")
    before = set(threading.enumerate())
    with interrupted_in("outcome"):
        list(prepare._all([f"begun {number}" for number in range(100)]))
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()
    assert len(list(tmp_path.glob("begun *"))) <= len(os.sched_getaffinity(0))
