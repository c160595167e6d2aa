"""Queues of a GPU's work, and marks in them: torch's, by Paddle 2's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.places import CUDAPlace, get_cuda_device_count
from refluid.paddle.framework.devices import as_place, expected_place

_PRIORITIES = {1: -1, 2: 0}  # high and usual, as torch has them


def gpu_of(device: Any, what: str) -> CUDAPlace:
    """The GPU of a number, name or place; by default where all runs.

    TypeError where that is none, EnforceNotMet for a GPU that isn't here.
    """
    place = CUDAPlace(device) if isinstance(device, int) else as_place(device or expected_place())
    if not isinstance(place, CUDAPlace):
        raise TypeError(f"{what}: the device should be a GPU ('gpu:0'), not {place}")
    if place.id >= get_cuda_device_count():
        raise EnforceNotMet(
            f"{what}: there is no GPU {place.id} here, of {get_cuda_device_count()}"
        )
    return place


class Stream:
    """A queue of work on a GPU. priority: 1 before others, 2 as usual. TypeError without a GPU."""

    def __init__(self, device: Any = None, priority: int = 2, stream_base: Any = None) -> None:
        if priority not in _PRIORITIES:
            raise ValueError(f"Stream: the priority is 1 (high) or 2 (usual), not {priority!r}")
        self.device = gpu_of(device, "Stream")
        made: Any = torch.cuda.Stream
        self.stream_base = stream_base or made(self.device.device, _PRIORITIES[priority])

    def record_event(self, event: Event | None = None) -> Event:
        """Marks its end of now; the mark."""
        made = event or Event(self.device)
        made.record(self)
        return made

    def wait_event(self, event: Event) -> None:
        """What comes later in it waits for the mark."""
        self.stream_base.wait_event(event.event_base)

    def wait_stream(self, stream: Stream) -> None:
        """What comes later in it waits for what is in the other one now."""
        self.stream_base.wait_stream(stream.stream_base)

    def query(self) -> bool:
        """Whether all of it is done."""
        return bool(self.stream_base.query())

    def synchronize(self) -> None:
        """Waits until all of it is done."""
        self.stream_base.synchronize()


class Event:
    """A mark in a stream. enable_timing: it has a time. TypeError without a GPU."""

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = gpu_of(device, "Event")
        made: Any = torch.cuda.Event
        self.event_base = made(enable_timing, blocking, interprocess)

    def record(self, stream: Stream | None = None) -> None:
        """Puts it at the end of a stream, of the current one by default."""
        self.event_base.record((stream or current_stream(self.device)).stream_base)

    def query(self) -> bool:
        """Whether all before it is done."""
        return bool(self.event_base.query())

    def synchronize(self) -> None:
        """Waits until all before it is done."""
        self.event_base.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from it to another one; both have to be timed, and done."""
        return float(self.event_base.elapsed_time(end_event.event_base))


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to now."""
    gpu = gpu_of(device, "current_stream")
    return Stream(gpu, stream_base=torch.cuda.current_stream(gpu.device))


def set_stream(stream: Stream) -> Stream:
    """Has work go to a stream from here on; the one that it went to before."""
    former = current_stream(stream.device)
    torch.cuda.set_stream(stream.stream_base)
    return former


@contextmanager
def stream_guard(stream: Stream | None = None) -> Iterator[None]:
    """Within the `with` work goes to a stream; None changes nothing."""
    with nullcontext() if stream is None else torch.cuda.stream(stream.stream_base):
        yield


def synchronize(device: Any = None) -> None:
    """Waits until all work of a GPU is done; TypeError without one."""
    torch.cuda.synchronize(gpu_of(device, "synchronize").device)


def get_all_custom_device_type() -> list[str]:
    """Kinds of devices of other makers: none."""
    return []


def get_available_custom_device() -> list[str]:
    """Devices of other makers: none."""
    return []
