"""`refluid timeline`: a profile file as a Chrome trace, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.message import DecodeError

from refluid.cli.console import messages, refuse
from refluid.core.profiler_pb2 import Event, MemEvent, Profile

_MICRO = 1e-3
_PLACES = {MemEvent.CUDAPlace: "gpu", MemEvent.CPUPlace: "cpu", MemEvent.CUDAPinnedPlace: "pinned"}
_DETAILS = ("result", "layer", "line")
TraceEntry = dict[str, Any]


def timeline(
    profile: Annotated[
        str | None, typer.Argument(help="A profile file, or name=file,name=file,... of several.")
    ] = None,
    out: Annotated[Path | None, typer.Argument(help="The trace to write.")] = None,
    profile_path: Annotated[
        str | None, typer.Option("--profile_path", help="PROFILE, as tools/timeline.py has it.")
    ] = None,
    timeline_path: Annotated[
        Path | None, typer.Option("--timeline_path", help="OUT, as tools/timeline.py has it.")
    ] = None,
) -> None:
    """Convert a profile file to a Chrome trace (JSON).

    Operators, communication, readers, what the user recorded, GPU kernels and memory are tracks
    of their own, one row per thread or stream.
    """
    source, target = profile_path or profile, timeline_path or out
    if source is None or target is None:
        refuse("give PROFILE and OUT.json (or --profile_path and --timeline_path)")
    trace = chrome_trace({name: load_profile(path) for name, path in named(source).items()})
    target.write_text(json.dumps(trace), encoding="utf-8")
    count = sum(entry["ph"] == "X" for entry in trace["traceEvents"])
    messages().print(f"refluid: {count} events in {target}; open it in ui.perfetto.dev")


def named(text: str) -> dict[str, Path]:
    """`trainer1=a,trainer2=b` as a mapping; one file alone has the name `trainer`."""
    if "=" not in text:
        return {"trainer": Path(text)}
    return {name: Path(path) for name, path in (part.split("=", 1) for part in text.split(","))}


def load_profile(path: Path) -> Profile:
    """Reads a profile file; refuses what is none."""
    if not path.is_file():
        refuse(f"no such profile file: {path}")
    found = Profile()
    try:
        found.ParseFromString(path.read_bytes())
    except DecodeError as error:
        refuse(f"{path} is no profile file: {error}")
    return found


def chrome_trace(profiles: Mapping[str, Profile]) -> dict[str, Any]:
    """The trace of several processes; each track of each of them is a process of the trace."""
    tracks = _Tracks()
    starts = [event.start_ns for one in profiles.values() for event in one.events]
    starts += [one.start_ns for profile in profiles.values() for one in profile.mem_events]
    origin = min(starts, default=0)
    entries: list[TraceEntry] = []
    for name, profile in profiles.items():
        label = f"{name}: " if len(profiles) > 1 else ""
        entries += [_span(event, label, tracks, origin) for event in profile.events]
        entries += _memory(profile.mem_events, label, tracks, origin)
    return {"traceEvents": [*tracks.entries, *entries], "displayTimeUnit": "ms"}


class _Tracks:
    """Numbers of tracks and of their rows, and the entries that name them."""

    def __init__(self) -> None:
        self.entries: list[TraceEntry] = []
        self._numbers: dict[str, int] = {}
        self._rows: set[tuple[int, int]] = set()

    def track(self, name: str) -> int:
        if name not in self._numbers:
            number = self._numbers[name] = len(self._numbers)
            self.entries.append(_named("process_name", number, 0, name))
            order = {"sort_index": number}
            self.entries.append(
                {"ph": "M", "name": "process_sort_index", "pid": number, "args": order}
            )
        return self._numbers[name]

    def row(self, track: int, row: int, name: str) -> int:
        if (track, row) not in self._rows:
            self._rows.add((track, row))
            self.entries.append(_named("thread_name", track, row, name))
        return row


def _named(what: str, pid: int, tid: int, name: str) -> TraceEntry:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _span(event: Event, label: str, tracks: _Tracks, origin: int) -> TraceEntry:
    detail = event.detail_info.split("\n")
    if event.type == Event.GPUKernel:
        track = tracks.track(f"{label}gpu {event.device_id}")
        row = tracks.row(track, event.sub_device_id, f"stream {event.sub_device_id}")
    else:
        track = tracks.track(f"{label}{detail[0] or 'operators'}")
        thread = detail[1] if len(detail) > 1 and detail[1] else f"thread {event.sub_device_id}"
        row = tracks.row(track, event.sub_device_id, thread)
    return {
        "ph": "X",
        "cat": "Op",
        "name": event.name,
        "ts": (event.start_ns - origin) * _MICRO,
        "dur": (event.end_ns - event.start_ns) * _MICRO,
        "pid": track,
        "tid": row,
        "args": {k: v for k, v in zip(_DETAILS, detail[2:], strict=False) if v},
    }


def _memory(
    found: Iterable[MemEvent], label: str, tracks: _Tracks, origin: int
) -> Iterable[TraceEntry]:
    """Bytes held over time, one counter per device."""
    changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in found:
        device = f"{_PLACES[one.place]} {one.device_id}"
        changes[device] += [(one.start_ns, one.bytes), (one.end_ns, -one.bytes)]
    for device, steps in changes.items():
        track, total = tracks.track(f"{label}memory"), 0
        for moment, change in sorted(steps):
            total += change
            yield {
                "ph": "C",
                "name": device,
                "pid": track,
                "tid": 0,
                "ts": (moment - origin) * _MICRO,
                "args": {"bytes": total},
            }
