"""Profiles as a Chrome trace, for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from refluid.core.profiler_pb2 import Event, MemEvent, Profile

_MICRO = 1e-3
_PLACES = {MemEvent.CUDAPlace: "gpu", MemEvent.CPUPlace: "cpu", MemEvent.CUDAPinnedPlace: "pinned"}
_DETAILS = ("result", "layer", "line")
TraceEntry = dict[str, Any]


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
