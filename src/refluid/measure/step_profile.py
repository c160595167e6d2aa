"""Where one step's time goes, from the events of many: by operator, layer and user's line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from refluid.core.events import Event, Log
from refluid.runtime.meter import Measured, OperatorWork
from refluid.runtime.watched import Watched

_MS = 1e-6


@dataclass(frozen=True)
class Spent:
    """One operator of the program: milliseconds per step, runs of it per step, preparation."""

    watched: Watched
    ms: float
    overhead: float
    calls: float
    nested: bool


@dataclass(frozen=True)
class StepProfile:
    """The program that took most of the time, `steps` runs of it; times are medians."""

    operators: list[Spent]
    steps: int

    @property
    def ms(self) -> float:
        """One step: its operators and what is between them."""
        return self.compute + sum(one.overhead for one in self.operators if not one.nested)

    @property
    def compute(self) -> float:
        """The operators alone."""
        return sum(one.ms for one in self.operators if not one.nested)

    def by(self, key: Callable[[Watched], str]) -> list[tuple[str, float, float]]:
        """(name, ms per step, calls per step) of operators grouped by `key`, slowest first."""
        ms: defaultdict[str, float] = defaultdict(float)
        calls: defaultdict[str, float] = defaultdict(float)
        for one in self._leaves():
            ms[key(one.watched)] += one.ms
            calls[key(one.watched)] += one.calls
        return sorted(((k, v, calls[k]) for k, v in ms.items()), key=lambda row: -row[1])

    def slowest(self, count: int) -> list[Spent]:
        """The operators that take longest."""
        return sorted(self._leaves(), key=lambda one: -one.ms)[:count]

    def _leaves(self) -> list[Spent]:
        """Operators without a sub-block: the time of others is that of what is inside."""
        return [one for one in self.operators if not any(op_blocks(one.watched))]


def op_blocks(watched: Watched) -> Iterable[object]:
    """Sub-blocks of an operator."""
    return (block for op in watched.ops for block in op.sub_blocks())


def step_profile(log: Log) -> StepProfile:
    """The profile of the program and thread that took most of the time."""
    plans: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in log.events:
        if isinstance(event.about, Watched):
            plans[event.thread, id(event.about.ops[0].block.program)].append(event)
    events = max(plans.values(), key=_total, default=[])
    by_operator: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        by_operator[id(event.about)].append(event)
    steps = min((len(one) for one in by_operator.values() if one[0].depth == 0), default=0)
    return StepProfile([_spent(found, steps) for found in by_operator.values()], steps)


def _total(events: Sequence[Event]) -> int:
    return sum(event.duration for event in events if event.depth == 0)


def _spent(events: Sequence[Event], steps: int) -> Spent:
    calls = len(events) / max(1, steps)
    device = [event.device_ms() for event in events]
    times = device if any(device) else [event.duration * _MS for event in events]
    overhead = median(event.preparation * _MS for event in events)
    first = events[0]
    return Spent(first.about, median(times) * calls, overhead * calls, calls, first.depth > 0)


def work_of(measured: Measured | None) -> dict[tuple[str, str], OperatorWork]:
    """What each operator does, by its type and result."""
    if measured is None:
        return {}
    return {
        (measured.watched[n].name, measured.watched[n].result): work
        for n, work in measured.work.items()
        if n >= 0
    }
