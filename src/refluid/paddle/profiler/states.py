"""What a profiler does at each step, and the names of what it may be asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum, IntEnum


class ProfilerState(Enum):
    """READY: steps run as usual before those that are noted. RECORD_AND_RETURN: the last one."""

    CLOSED = 0
    READY = 1
    RECORD = 2
    RECORD_AND_RETURN = 3


class ProfilerTarget(Enum):
    """What is looked at."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class SortedKeys(Enum):
    """How rows of a summary are sorted, greatest first; by the least time, smallest first."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """The tables of a summary."""

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8


class TracerEventType(IntEnum):
    """Kinds of events, as `RecordEvent` may name them."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14


Scheduler = Callable[[int], ProfilerState]


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Scheduler:
    """The state at a step: after `skip_first` steps cycles of closed, ready and recorded ones.

    repeat: how many cycles; 0: without end. A cycle's last step returns what was noted.
    AssertionError for numbers below 0, or no step to record.
    """
    given = {"closed": closed, "ready": ready, "record": record}
    fits = min(closed, ready, repeat, skip_first) >= 0 and record > 0
    assert fits, f"Invalid profiler scheduler arguments {given}"
    if closed == ready == 0:
        warnings.warn(
            "a profiler that records at once times what the first steps prepare: give ready=1",
            stacklevel=2,
        )
    cycle = closed + ready + record

    def state(step: int) -> ProfilerState:
        turn, place = divmod(step - skip_first, cycle)
        if step < skip_first or (repeat and turn >= repeat) or place < closed:
            return ProfilerState.CLOSED
        if place < closed + ready:
            return ProfilerState.READY
        last = place == cycle - 1
        return ProfilerState.RECORD_AND_RETURN if last else ProfilerState.RECORD

    return state


def scheduler_of(given: Scheduler | tuple[int, int] | None) -> Scheduler:
    """Of what `Profiler` is given: a function; the first step and the one after the last; or all.

    The step before the first is a ready one. AssertionError where there is none between both.
    """
    if callable(given):
        return given
    if not isinstance(given, tuple | list):
        return lambda _: ProfilerState.RECORD
    begin, end = max(given[0], 0), given[1]
    assert end > begin, f"a profiler's steps {tuple(given)}: the second has to be above the first"
    ready = min(begin, 1)
    return make_scheduler(closed=begin - ready, ready=ready, record=end - begin, repeat=1)
