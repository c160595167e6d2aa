"""`refluid prepare`: compiles the loops of refluid's own before a program needs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import typer


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
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for future in as_completed([threads.submit(_one, name) for name in names]):
            yield future.result()


def _one(name: str) -> _Prepared:
    begin = time.perf_counter()
    made = subprocess.run(
        [sys.executable, "-m", "refluid.cli.practice", name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = made.stderr.strip().splitlines() if made.returncode else []
    failure = lines[-1] if lines else f"exit status {made.returncode}" if made.returncode else ""
    return _Prepared(name, time.perf_counter() - begin, failure)
