"""Profile files: Fluid's own format, which `refluid timeline` and tools/timeline.py read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refluid.core.events import EPOCH, Event, EventKind, Log, clock
from refluid.core.profiler_pb2 import Event as EventProto
from refluid.core.profiler_pb2 import MemEvent, Profile
from refluid.core.writing import write_whole
from refluid.fluid.profiling.kernels import KernelEvent
from refluid.runtime.watched import Watched

_ON_CPU = -1  # device_id of what runs on no GPU; sub_device_id is then the thread


def write_profile(log: Log, path: Path, kernels: Sequence[KernelEvent] = ()) -> None:
    """Writes what was noted; folders are made as needed."""
    write_whole(path, profile_of(log, kernels).SerializeToString())


def profile_of(log: Log, kernels: Sequence[KernelEvent] = ()) -> Profile:
    """The profile as a message: host events by thread, kernels by stream, memory."""
    end = clock()
    found = Profile(start_ns=log.start + EPOCH, end_ns=end + EPOCH)
    names = log.thread_names()
    found.events.extend(_host(event, names) for event in log.events)
    found.events.extend(
        EventProto(
            type=EventProto.GPUKernel,
            name=one.name,
            start_ns=one.start + EPOCH,
            end_ns=one.end + EPOCH,
            device_id=one.device,
            sub_device_id=one.stream,
        )
        for one in kernels
    )
    for one in log.allocations:
        kind, _, number = one.device.partition(":")
        found.mem_events.append(
            MemEvent(
                start_ns=one.start + EPOCH,
                end_ns=(end if one.end is None else one.end) + EPOCH,
                bytes=one.size,
                place=MemEvent.CUDAPlace if kind == "cuda" else MemEvent.CPUPlace,
                thread_id=one.thread,
                device_id=int(number or 0),
                alloc_in=one.made_by,
                free_in=one.freed_by,
            )
        )
    return found


def _host(event: Event, names: dict[int, str]) -> EventProto:
    """detail_info: track, thread, and of an operator the result, layer and user's line."""
    detail = [event.kind.value, names.get(event.thread, "")]
    if isinstance(event.about, Watched):
        detail += [event.about.result, event.about.layer, event.about.line]
    elif event.kind is EventKind.USER:
        detail += ["", "", ""]
    return EventProto(
        type=EventProto.CPU,
        name=event.name,
        start_ns=event.start + EPOCH,
        end_ns=event.end + EPOCH,
        device_id=_ON_CPU,
        sub_device_id=event.thread,
        detail_info="\n".join(detail),
    )
