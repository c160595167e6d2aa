"""What ran when: the log that the profiler and the timeline are made from.

`record("name")` around anything notes it while a log is being kept, and costs next to nothing
otherwise. Times are nanoseconds of `clock`; `EPOCH` added makes them those of the calendar.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

clock = time.perf_counter_ns
EPOCH = time.time_ns() - time.perf_counter_ns()


class EventKind(Enum):
    """What an event belongs to; the value names its track in a timeline."""

    OPERATOR = "operators"
    COMMUNICATION = "communication"
    READER = "readers"
    USER = "user"


@dataclass(slots=True)
class Event:
    """Something that ran from `start` to `end` in a thread (its number, from 0).

    preparation: nanoseconds spent just before `start` on getting there. depth: how many other
    events it is part of. about: who ran, known to whoever recorded it. marks: the two marks
    that it left on a device's queue.
    """

    name: str
    kind: EventKind
    thread: int
    start: int
    end: int
    preparation: int = 0
    depth: int = 0
    about: Any = None
    marks: Any = None

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start

    def device_ms(self) -> float:
        """Milliseconds that the device needed, once it is done; 0 where there is none."""
        if not self.marks:
            return 0.0
        before, after = self.marks
        after.synchronize()
        return float(before.elapsed_time(after))


@dataclass(slots=True)
class Allocation:
    """Memory held from `start` to `end` (None: still held), and the operators by which."""

    start: int
    end: int | None
    size: int
    thread: int
    device: str
    made_by: str
    freed_by: str = ""


class Log:
    """Events and allocations in the order in which they ended or began; any thread may add.

    The thread that makes the log is number 0.

    memory: whether allocations are noted. most: how many events are enough (None: no limit).
    """

    def __init__(self, memory: bool = False, most: int | None = None) -> None:
        self.memory, self.most = memory, most
        self.threads: dict[int, tuple[int, str]] = {}
        self.thread()
        self.clear()

    @property
    def full(self) -> bool:
        """Whether it holds as many events as it may: no further step is noted."""
        return self.most is not None and len(self.events) >= self.most

    def clear(self) -> None:
        """Forgets what was noted so far."""
        self.events: list[Event] = []
        self.allocations: list[Allocation] = []
        self.start = clock()

    def thread(self) -> int:
        """The number of the calling thread."""
        key = threading.get_ident()
        found = self.threads.get(key)
        if found is None:
            found = (len(self.threads), threading.current_thread().name)
            self.threads[key] = found
        return found[0]

    def thread_names(self) -> dict[int, str]:
        """Names of the threads by number."""
        return dict(self.threads.values())


_active: Log | None = None


def active() -> Log | None:
    """The log that is being kept, if any."""
    return _active


def taking() -> Log | None:
    """The log that is being kept, if it isn't full."""
    return None if _active is None or _active.full else _active


def keep(log: Log | None) -> Log | None:
    """From now on events go to `log` (None: nowhere); the log that was kept until now."""
    global _active
    former, _active = _active, log
    return former


@contextmanager
def record(name: str, kind: EventKind = EventKind.USER) -> Iterator[None]:
    """Notes how long the block takes, if a log is being kept."""
    log = _active
    if log is None:
        yield
        return
    start = clock()
    try:
        yield
    finally:
        note(log, name, kind, start)


def note(log: Log, name: str, kind: EventKind, start: int) -> None:
    """Notes something that began at `start` and ends now."""
    log.events.append(Event(name, kind, log.thread(), start, clock()))
