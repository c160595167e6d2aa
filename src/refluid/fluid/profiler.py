"""`fluid.profiler`: where the time of a run goes, as a report and as a file for a timeline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from refluid.core import events
from refluid.fluid.profiling.file import write_profile
from refluid.fluid.profiling.kept_log import KeptLog
from refluid.fluid.profiling.kernels import KernelEvents, write_kernels
from refluid.fluid.profiling.report import SORTED, ReportOptions, report

__all__ = ["cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_LOGGER = logging.getLogger("refluid")
_STATES = ("CPU", "GPU", "All")
_TRACERS = ("Default", "OpDetail", "AllOpDetail")
_PATH = "/tmp/profile"


@dataclass
class _Session:
    """What `start_profiler` began."""

    kept: KeptLog
    state: str
    tracer: str


_session: _Session | None = None

record_event = events.record
"""`with record_event("name"):` is a row of the report and an event of the timeline."""


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begins to note what every operator takes; nothing if that was begun before.

    state: "CPU"; "GPU" adds the times on the device; "All" adds memory, and a profile file for
    the timeline. tracer_option: "OpDetail" reports the parts of an operator too, "AllOpDetail"
    each operator by itself rather than each type. Raises ValueError for anything else.
    """
    global _session
    if state not in _STATES:
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in _TRACERS:
        raise ValueError(
            "tracer option must be 'Default', 'OpDetail', 'AllOpDetail', "
            f"but received {tracer_option!r}."
        )
    if _session is not None:
        return
    kept = KeptLog(on_device=state != "CPU", memory=state == "All")
    _session = _Session(kept, state, tracer_option)


def stop_profiler(sorted_key: str | None = None, profile_path: str = _PATH) -> None:
    """Ends what `start_profiler` began, prints the report, and writes the profile file.

    sorted_key: "calls", "total", "max", "min" or "ave"; None or "default": in the order of first
    ends.
    profile_path: the file, written if the state is "All" or a path is given.
    Raises ValueError for another key. Does nothing if nothing was begun.
    """
    global _session
    if sorted_key not in SORTED:
        raise ValueError(
            "The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'"
        )
    if _session is None:
        return
    session, _session = _session, None
    log, kernels = session.kept.log, session.kept.end()
    options = ReportOptions(session.state, sorted_key, session.tracer)
    print(report(log, options, kernels))
    if session.state == "All" or profile_path != _PATH:
        write_profile(log, Path(profile_path), kernels)


def reset_profiler() -> None:
    """Forgets what was noted so far."""
    if _session is not None:
        _session.kept.restart()


@contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str = _PATH,
    tracer_option: str = "Default",
) -> Iterator[None]:
    """Profiles the block: `start_profiler` before it, `stop_profiler` after it."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


@contextmanager
def cuda_profiler(
    output_file: str, output_mode: str | None = None, config: list[str] | None = None
) -> Iterator[None]:
    """Writes the GPU kernels that run in the block to `output_file`.

    output_mode: "csv" (default) or "kvp"; ValueError for anything else. config: settings of
    nvprof, which have no counterpart. Without a GPU the file has no kernels, and the log says so.
    """
    if output_mode not in (None, "kvp", "csv"):
        raise ValueError(f"The output mode must be 'kvp' or 'csv', not {output_mode!r}")
    if not torch.cuda.is_available():
        _LOGGER.warning("cuda_profiler: torch sees no CUDA device, so there are no kernels to note")
    kernels = KernelEvents()
    kernels.start()
    try:
        yield
    finally:
        write_kernels(kernels.stop(), Path(output_file), output_mode or "csv")
