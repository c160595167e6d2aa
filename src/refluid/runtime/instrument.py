"""Plans that are watched: what happens before and after each operator.

    watch.before(3)
    v7 = mul(v5, p6)
    watch.after(3, v7)

Only plans made with `Instruments` have such lines; all others pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from refluid.analysis.uses import key_of
from refluid.core import events, flags
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.kernels.junk import Junk
from refluid.ops.registry import find
from refluid.runtime.meter import MeteredKernels, armed
from refluid.runtime.nonfinite import FiniteSums, require_finite
from refluid.runtime.request import UNWATCHED, Instruments, Request
from refluid.runtime.steps import Bind
from refluid.runtime.storages import LiveStorages
from refluid.runtime.trees import Known, method
from refluid.runtime.watched import Watched
from refluid.runtime.writing import CONTROL, Writing

WATCH = Known("watch")


def instruments() -> Instruments:
    """What plans are to be watched for now: profiler, meter and FLAGS_*."""
    fast, slow = flags.value("fast_check_nan_inf"), flags.value("check_nan_inf")
    wait, junk = flags.value("benchmark"), flags.value("init_allocated_mem")
    log, meter = events.active(), armed()
    if log is None and meter is None and not (fast or slow or wait or junk):
        return UNWATCHED
    return Instruments(
        log is not None,
        meter is not None,
        bool(fast or slow),
        bool(fast),
        bool(wait) and torch.cuda.is_available(),
        bool(junk),
    )


def mark_on(device: torch.device) -> Any:
    """A mark with a time at the end of a GPU's queue; None on other devices."""
    if device.type != "cuda":
        return None
    mark = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    mark.record(torch.cuda.current_stream(device))
    return mark


class Watch:
    """The watcher of one plan, which runs in one thread at a time."""

    def __init__(self, request: Request) -> None:
        self.request, self.wanted, self.device = request, request.instruments, request.device
        self.watched: list[Watched] = []
        self._log: events.Log | None = None
        self._kernels: MeteredKernels | None = None
        self._storages: LiveStorages | None = None
        self._sums = FiniteSums()
        self._open: list[tuple[int, int, Any]] = []
        self._thread = self._last = 0

    # -- lines of the plan ----------------------------------------------------

    def before(self, number: int) -> None:
        """The operator is about to run."""
        if self._kernels is not None:
            self._kernels.enter(number)
        start = events.clock()
        self._open.append((start, start - self._last, self._mark()))
        self._last = start

    def after(self, number: int, *values: Any) -> None:
        """The operator has run; `values` are its outputs."""
        start, preparation, mark = self._open.pop()
        marks = (mark, self._mark()) if mark is not None else None
        if self.wanted.wait:
            torch.cuda.synchronize(self.device)
        end, one = events.clock(), self.watched[number]
        if self._kernels is not None:
            self._kernels.leave(number, one.outputs, values)
        elif self._log is not None:
            depth = len(self._open)
            log = self._log
            log.events.append(
                events.Event(
                    one.name, one.kind, self._thread, start, end, preparation, depth, one, marks
                )
            )
            if self._storages is not None:
                self._storages.made(one.name, values, end)
        if self.wanted.fast:
            self._sums.add(one, values)
        elif self.wanted.check:
            require_finite(one, values)
        self._last = events.clock()

    def _mark(self) -> Any:
        return None if self._log is None else mark_on(self.device)

    # -- one step -------------------------------------------------------------

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The plan's function with what is done once per step."""

        junk = Junk if self.wanted.junk else nullcontext

        def run(feeds: Sequence[Any], cells: Sequence[Any], lods: Sequence[Any]) -> Any:
            with junk():
                return watched(feeds, cells, lods)

        def watched(feeds: Sequence[Any], cells: Sequence[Any], lods: Sequence[Any]) -> Any:
            state = {cell.name: cell.value for cell in cells}
            meter = armed()
            try:
                if meter is None or not meter.wants(self.request):
                    self._start(state)
                    found = step(feeds, cells, lods)
                else:
                    with meter.step(self.request, self.watched, state, feeds) as self._kernels:
                        self._start(state)
                        found = step(feeds, cells, lods)
                self._sums.require_finite()
                return found
            finally:
                self._end()

        return run

    def _start(self, state: Mapping[str, Any]) -> None:
        self._log = events.taking()
        self._storages = None
        self._open.clear()
        if self._log is not None:
            self._thread = self._log.thread()
            if self._log.memory and self._kernels is None:
                self._storages = LiveStorages(self._log, self._thread, self.device, state.values())
        self._last = events.clock()

    def _end(self) -> None:
        if self._storages is not None:
            self._storages.end()
        self._sums.clear()
        self._log = self._kernels = self._storages = None


@contextmanager
def watching(writer: Writing, ops: Sequence[Operator]) -> Iterator[None]:
    """Writes the steps before and after the operators `ops`, which run as one."""
    watch = writer.source.constants.get(WATCH)
    if watch is None:
        yield
        return
    number = len(watch.watched)
    values = [] if ops[0].type in CONTROL else list(_outputs(ops))
    watch.watched.append(Watched(tuple(ops), ()))
    writer.source.add(Bind(None, method(WATCH, "before", number), op=ops[0]))
    yield
    held = writer.variables.names
    named = [(name, held[key]) for name, key in values if key in held]
    watch.watched[number] = Watched(tuple(ops), tuple(name for name, _ in named))
    after = method(WATCH, "after", number, *(local for _, local in named))
    writer.source.add(Bind(None, after, op=ops[0]))


def _outputs(ops: Sequence[Operator]) -> Iterator[tuple[str, Any]]:
    """Names of the variables that the operators assign."""
    for op in ops:
        definition = find(op.type)
        for slot in definition.outputs if definition else ():
            if definition is not None and slot.name in definition.untouched:
                continue
            for name in op.output(slot.name):
                if name != EMPTY:
                    yield name, key_of(op.block, name)
