"""`refluid run --profile` and `--memory`: kept while the script runs, written at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from refluid.cli.console import messages
from refluid.cli.memory_page import memory_page
from refluid.cli.profile_page import profile_page
from refluid.core.events import Log, keep
from refluid.core.writing import write_whole
from refluid.fluid.contrib.memory_report import report_of
from refluid.measure.ceilings import measure
from refluid.measure.step_profile import step_profile
from refluid.runtime.meter import Meter, arm, armed

_EVENTS = 300_000
_RUN = 2  # the first run of a program is unlike the others


@contextmanager
def profiling(page: Path, title: str) -> Iterator[None]:
    """Within the block every step is timed, and one of each program is metered; then the page
    is written, for the program that took most of the time."""
    log, meter = Log(most=_EVENTS), Meter(_RUN)
    keep(log)
    arm(meter)
    try:
        yield
    finally:
        keep(None)
        arm(None)
        _write_profile(log, meter, page, title)


def _write_profile(log: Log, meter: Meter, page: Path, title: str) -> None:
    profile = step_profile(log)
    if not profile.operators:
        _say("no program was run, so there is nothing to profile")
        return
    program = profile.operators[0].watched.ops[0].block.program
    steps = (step for step in meter.steps if step.request.block.program is program)
    measured = next(steps, None)
    device = measured.request.device if measured else torch.device("cpu")
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else _threads()
    text = profile_page(title, profile, measured, measure(device), where)
    write_whole(page, text)
    _say(f"profile of {profile.steps} steps of {profile.ms:.3g} ms in {page}")


def _threads() -> str:
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'s' if count > 1 else ''}"


@contextmanager
def metering(page: Path, title: str) -> Iterator[None]:
    """Within the block one run of each program is metered; then the report of the one that needed
    most memory is written: a page where its name ends in .html, else text."""
    former = armed()
    meter = former or Meter()
    arm(meter)
    try:
        yield
    finally:
        arm(former)
        step = meter.largest
        if step is None:
            _say("no program was run, so there is no memory to report")
        else:
            report = report_of(step)
            is_page = page.suffix in (".html", ".htm")
            text = memory_page(title, report) if is_page else report.text()
            write_whole(page, text)
            _say(f"memory of one step in {page}")


def _say(text: str) -> None:
    messages().print(f"refluid: {text}", markup=False, soft_wrap=True)
