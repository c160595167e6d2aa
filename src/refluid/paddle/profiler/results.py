"""What a profiler noted: kept, written and read."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from refluid.core.events import Log
from refluid.core.profiler_pb2 import Profile
from refluid.core.writing import write_whole
from refluid.fluid.profiling.file import profile_of
from refluid.fluid.profiling.kernels import KernelEvent
from refluid.fluid.profiling.trace import chrome_trace


@dataclass(frozen=True)
class Noted:
    """Steps that were noted. seconds: from their begin to their end; computed: by processors."""

    log: Log
    kernels: Sequence[KernelEvent]
    seconds: float
    computed: float

    def result(self) -> ProfilerResult:
        """As what is written and read."""
        return ProfilerResult(profile_of(self.log, self.kernels))


class ProfilerResult:
    """The events of a profile: `profile` is the message of Fluid's profile files."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def save(self, path: str | Path, format: str = "json") -> None:
        """Writes a Chrome trace ("json") or a profile file ("pb"); ValueError for another."""
        if format not in ("json", "pb"):
            raise ValueError(f"a profile is written as 'json' or 'pb', not {format!r}")
        if format == "pb":
            write_whole(path, self.profile.SerializeToString())
        else:
            write_whole(path, json.dumps(chrome_trace({"trainer": self.profile})))


def load_profiler_result(filename: str) -> ProfilerResult:
    """What was written with `format="pb"`; ValueError for another file."""
    profile = Profile()
    try:
        profile.ParseFromString(Path(filename).read_bytes())
    except DecodeError as error:
        raise ValueError(f"{filename} is no profile file: {error}") from None
    return ProfilerResult(profile)


def export_chrome_tracing(dir_name: str, worker_name: str | None = None) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes each cycle to a file of the folder, for chrome://tracing.

    worker_name: how its name begins; host and process otherwise.
    """
    return _exporting(dir_name, worker_name, "json", ".paddle_trace.json")


def export_protobuf(dir_name: str, worker_name: str | None = None) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes each cycle to a file that `load_profiler_result` reads."""
    return _exporting(dir_name, worker_name, "pb", ".paddle_trace.pb")


def _exporting(folder: str, worker: str | None, kind: str, ending: str) -> Callable[[Any], None]:
    Path(folder).mkdir(parents=True, exist_ok=True)

    def write(profiler: Any) -> None:
        name = worker or f"host_{socket.gethostname()}pid_{os.getpid()}"
        now = time.time()
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S", time.localtime(now))
        file = f"{name}_time_{stamp}_{int(now * 1e6) % 1_000_000:06d}{ending}"
        profiler.export(str(Path(folder) / file), kind)

    return write
