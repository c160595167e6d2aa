"""`refluid prepare`: compiles the loops of refluid's own before a program needs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import typer

from refluid.core.whole_threads import outcome, submitted

_PRACTICE = "refluid.cli.practice"


class _Prepared(NamedTuple):
    """What became of one practice program: its name, seconds, and why it failed, if it did."""

    name: str
    seconds: float
    failure: str


def prepare() -> None:
    """Compile refluid's own loops for this processor, as a program's first step on it would.

    They are kept for all programs that run later. For images, and after an installation. The exit
    status is 1 where some couldn't be made.
    """
    from refluid.cli.console import messages
    from refluid.cli.practice import PROGRAMS
    from refluid.kernels.machine_code import linker

    console = messages()
    if not linker():
        console.print("there is no linker (cc, ld), so compiled loops can't be kept here")
        raise typer.Exit(1)
    failed = False
    for done in _all(list(PROGRAMS)):
        failed |= bool(done.failure)
        mark = "[red]failed[/]" if done.failure else "[green]ready[/] "
        console.print(f"{mark} {done.name:10} {done.seconds:5.1f} s", end=" ")
        console.print(done.failure, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _all(names: list[str]) -> Iterator[_Prepared]:
    """Each program in a process of its own, as many at once as there are processors."""
    running = _PracticeProcesses()
    threads = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        for future in [submitted(threads, _one, name, running) for name in names]:
            yield outcome(future)
    finally:  # on Ctrl-C no other begins, and those that run end
        threads.shutdown(wait=False, cancel_futures=True)
        running.end()


class _PracticeProcesses:
    """The processes of practice programs."""

    def __init__(self) -> None:
        self._begun: list[subprocess.Popen[str]] = []
        self._ended = False

    def add(self, process: subprocess.Popen[str]) -> None:
        """One has begun; it ends at once where all were to."""
        self._begun.append(process)
        if self._ended:
            process.terminate()

    def end(self) -> None:
        """Ends all, also those that begin just now."""
        self._ended = True
        for process in self._begun:
            process.terminate()


def _one(name: str, running: _PracticeProcesses) -> _Prepared:
    begin = time.perf_counter()
    made = subprocess.Popen(
        [sys.executable, "-m", _PRACTICE, name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    running.add(made)
    _, errors = made.communicate()
    lines = errors.strip().splitlines() if made.returncode else []
    failure = lines[-1] if lines else f"exit status {made.returncode}" if made.returncode else ""
    return _Prepared(name, time.perf_counter() - begin, failure)
