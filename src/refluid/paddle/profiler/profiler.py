"""`Profiler`: notes some of the steps of training, and hands over what it noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from typing import Any

from refluid.core import events
from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.fluid.profiling.kept_log import KeptLog
from refluid.paddle.profiler.results import Noted, export_chrome_tracing
from refluid.paddle.profiler.states import (
    ProfilerState,
    ProfilerTarget,
    Scheduler,
    SortedKeys,
    SummaryView,
    TracerEventType,
    scheduler_of,
)
from refluid.paddle.profiler.summary import STEP, summary
from refluid.paddle.profiler.timing import StepTimer

_RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)
_WITHOUT = ("record_shapes", "emit_nvtx", "with_flops")


class RecordEvent(ContextDecorator):
    """Notes how long a block, a function or what lies between `begin` and `end` takes.

    event_type: kept; it is a row of what users recorded in any case. Nothing is noted outside of
    recorded steps.
    """

    def __init__(
        self, name: str, event_type: TracerEventType = TracerEventType.PythonUserDefined
    ) -> None:
        self.name, self.event_type = name, event_type
        self._start: int | None = None

    def __enter__(self) -> RecordEvent:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """The event begins."""
        self._start = events.clock()

    def end(self) -> None:
        """It ends; nothing where it didn't begin."""
        log, start, self._start = events.active(), self._start, None
        if log is not None and start is not None:
            events.note(log, self.name, events.EventKind.USER, start)


class _Cycle:
    """The steps of a cycle, from the first that is noted."""

    def __init__(self, kept: KeptLog) -> None:
        self.kept = kept
        self._begun = time.perf_counter(), time.process_time()

    def end(self) -> Noted:
        """What was noted."""
        kernels, (wall, computed) = self.kept.end(), self._begun
        seconds, spent = time.perf_counter() - wall, time.process_time() - computed
        return Noted(self.kept.log, kernels, seconds, spent)


class Profiler:
    """Profiles steps: `start`, `step` after each, `stop`; or a `with` and `step`.

    targets: CPU and, where there is one, GPU. scheduler: the state of a step by its number; (first
    step, step after the last); None: all are noted. on_trace_ready: called with the profiler when
    a cycle of steps has been noted; by default a Chrome trace goes to ./profiler_log/.
    profile_memory: allocations of programs too. timer_only: steps are timed and nothing else.
    record_shapes, with_flops and emit_nvtx change nothing, which the log says once;
    `refluid run --profile` reports arithmetic and bytes.
    """

    def __init__(
        self,
        *,
        targets: Iterable[ProfilerTarget] | None = None,
        scheduler: Scheduler | tuple[int, int] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool | None = False,
        profile_memory: bool | None = False,
        timer_only: bool | None = False,
        emit_nvtx: bool | None = False,
        custom_device_types: Sequence[str] = (),
        with_flops: bool | None = False,
    ) -> None:
        asked = zip(_WITHOUT, (record_shapes, emit_nvtx, with_flops), strict=True)
        for name in (name for name, wanted in asked if wanted):
            tell_once(f"paddle.profiler.Profiler: {name} has no effect here")
        if custom_device_types:
            tell_once("paddle.profiler.Profiler: there are no custom devices here")
        self.targets = list(ProfilerTarget) if targets is None else list(targets)
        self.scheduler = scheduler_of(scheduler)
        default = None if timer_only or on_trace_ready else "./profiler_log/"
        self.on_trace_ready = export_chrome_tracing(default) if default else on_trace_ready
        self.timer_only, self.profile_memory = bool(timer_only), bool(profile_memory)
        self.step_num = 0
        self.previous_state = self.current_state = ProfilerState.CLOSED
        self.profiler_result: Noted | None = None
        self._cycle: _Cycle | None = None
        self._timer: StepTimer | None = None
        self._begun = 0

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Goes to the state of step 0."""
        self._timer = StepTimer()
        if not self.timer_only:
            self._go_to(self.scheduler(self.step_num))

    def stop(self) -> None:
        """Ends; what was noted since the last cycle is handed over."""
        if self._cycle is not None:
            self._return()
        self.previous_state, self.current_state = self.current_state, ProfilerState.CLOSED

    def step(self, num_samples: int | None = None) -> None:
        """The step is done, of so many samples; the next one begins.

        EnforceNotMet where `start` wasn't called.
        """
        if self._timer is None:
            raise EnforceNotMet("Profiler.step: call start() before the first step")
        self._timer.step(num_samples)
        if self.timer_only:
            return
        self._note_step()
        if self._cycle is not None and self.current_state is ProfilerState.RECORD_AND_RETURN:
            self._return()
        self.step_num += 1
        self._go_to(self.scheduler(self.step_num))

    def step_info(self, unit: str | None = None) -> str:
        """Means of the steps since the last call: reader_cost and batch_cost, seconds; ips.

        unit: of what `step` was told the number of. EnforceNotMet where `start` wasn't called.
        """
        if self._timer is None:
            raise EnforceNotMet("Profiler.step_info: call start() before the first step")
        return self._timer.tell(unit)

    def export(self, path: str = "", format: str = "json") -> None:
        """Writes the last cycle: a Chrome trace ("json") or a profile file ("pb")."""
        if self.profiler_result is None:
            tell_once("Profiler.export: nothing was noted yet, so nothing is written")
        else:
            self.profiler_result.result().save(path, format)

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: SummaryView | Sequence[SummaryView] | None = None,
    ) -> None:
        """Prints tables of the last cycle.

        op_detail: what reaching an operator took apart from computing it. thread_sep: rows of
        threads apart. time_unit: s, ms, us or ns; ValueError for another. views: which tables.
        """
        listed = [views] if isinstance(views, SummaryView) else views
        if self.profiler_result is not None:
            text = summary(
                self.profiler_result, sorted_by, op_detail, thread_sep, time_unit, listed
            )
            print(text)

    # -- states ---------------------------------------------------------------

    def _go_to(self, state: ProfilerState) -> None:
        self.previous_state, self.current_state = self.current_state, state
        if state in _RECORDING and self._cycle is None:
            on_device = ProfilerTarget.GPU in self.targets
            self._cycle = _Cycle(KeptLog(on_device=on_device, memory=self.profile_memory))
        elif state not in _RECORDING and self._cycle is not None:
            self._return()
        self._begun = events.clock()

    def _note_step(self) -> None:
        if self._cycle is not None:
            name, log = f"{STEP}#{self.step_num}", self._cycle.kept.log
            events.note(log, name, events.EventKind.USER, self._begun)

    def _return(self) -> None:
        assert self._cycle is not None
        self.profiler_result, self._cycle = self._cycle.end(), None
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)
