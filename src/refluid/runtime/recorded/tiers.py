"""Moves a plan from its operators to recorded kernels, once the same shapes came a few times."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from refluid.analysis.uses import Key
from refluid.core import flags
from refluid.core.scope import Cell
from refluid.kernels.collecting import without_collections
from refluid.kernels.packed import USES
from refluid.runtime.allocator import first_run, make_room
from refluid.runtime.code import Code, PreparedStep
from refluid.runtime.recorded.bysize import SIZES, Tables
from refluid.runtime.recorded.fitting import Meta, Recorded, meta
from refluid.runtime.recorded.graph import Compiled, Kernel, Part
from refluid.runtime.recorded.large_results import large_at_once
from refluid.runtime.recorded.last_uses import over_last_uses
from refluid.runtime.recorded.record import Refused, StepRecorder
from refluid.runtime.recorded.simplify import by_panels, simplify
from refluid.runtime.recorded.text import Text
from refluid.runtime.recorded.trial import Trial
from refluid.runtime.trees import Name

_log = logging.getLogger("refluid")

# A step is recorded when its shapes come for the fourth time (FLAGS_refluid_record_after), and one
# of very many lines that many hundreds later: recording takes as long as 45 runs of it, and has to
# be worth it. So many recordings are kept. After so many different shapes each is recorded into a
# table of all of them, the later the more are in there.
LONG, KEPT, VARIED, MANY = 400, 8, 5, 32
# So many steps that pause may be left there while they are recorded.
UNFINISHED = 8

# Recordings are kept for so many states of the flags: who compares two goes to and fro.
STATES = 3

# Devices that run whole steps by one call.
GRAPHED = frozenset({"cuda"})

StepResults = tuple[Any, Any]


def before_recording(lines: int = 0) -> int:
    """Steps of the same shapes that go by before one of so many lines is recorded."""
    if flags.value("refluid_tier") in ("recorded", "compiled"):
        return 0
    return int(flags.value("refluid_record_after")) + lines // LONG


class _Made:
    """What was made of a plan's code under one state of the flags."""

    def __init__(self, code: Code) -> None:
        self.current: Recorded | None = None
        self.made: list[Recorded] = []
        self.tables = Tables(code)
        self.counts: Counter[tuple[Meta, ...]] = Counter()
        self.given_up = flags.value("refluid_tier") == "interpreted"


class Tiers:
    """The tiers of one plan: `run` takes the fastest that fits, FLAGS_refluid_tier permitting."""

    def __init__(
        self,
        code: Code,
        *,
        compiles: bool = False,
        pauses: bool = False,
        in_place: bool = True,
    ) -> None:
        self.interpreted, self._in_place = code, in_place
        self._compiles = compiles and not pauses
        self._pauses = pauses
        self._begun = 0
        self._unrolls = True
        self._body: list[PreparedStep] | None = None
        self._flags = flags.state()
        self._now = _Made(code)
        self._by_flags: dict[int, _Made] = {self._flags: self._now}

    def choose(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code:
        """The code to run this step by, where none was `fitting`."""
        if flags.state() != self._flags:
            self._change()
        return self._search(feeds, cells)

    def fitting(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code | None:
        """The code to run this step by, where it is as the last one was."""
        current = self._now.current
        if current is None or self._flags != flags.state() or not current.fits(feeds, cells):
            return None
        return current.code if current.trial is None else current.trial.next(current)

    def _change(self) -> None:
        """Goes on with what was made under these flags, of which few are kept.

        What is being compiled is given up: nobody would time it.
        """
        left = self._now
        left.made = [one for one in left.made if one.trial is None]
        left.current = None
        self._flags = flags.state()
        found = self._by_flags.pop(self._flags, None)
        self._now = self._by_flags[self._flags] = found or _Made(self.interpreted)
        if len(self._by_flags) > STATES:
            del self._by_flags[next(iter(self._by_flags))]

    def _search(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code:
        for one in (*self._now.tables.made, *self._now.made):
            if one.fits(feeds, cells):
                self._now.current = one
                return one.code
        if self._now.given_up:
            return self.interpreted
        key = tuple(meta(feed) for feed in feeds)
        if key not in self._now.counts and len(self._now.counts) == SIZES:
            return self.interpreted
        self._now.counts[key] += 1
        patience = before_recording(len(self.interpreted.source.steps))
        if len(self._now.counts) > VARIED and not self._pauses and self._now.tables.wants(feeds):
            if self._now.counts[key] > patience + self._later():
                return self.interpreted.with_step(self._tabulate)
        elif len(self._now.made) >= KEPT:
            self._give_up("its shapes change too often")
        elif self._now.counts[key] > patience:
            if self._pauses:
                return self._pausing()
            return self.interpreted.with_step(self._record)
        return self.interpreted

    def _later(self) -> int:
        return self._now.tables.sizes // MANY if before_recording() else 0

    def _record(self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any) -> StepResults:
        """Runs one step, operator by operator, and keeps a recording of it."""
        start = time.perf_counter()
        code = self.interpreted
        recorder = self._recorder(unrolls=self._unrolls)
        try:
            recorder.check(feeds, cells)
        except Refused as error:
            self._give_up(str(error))
            return code.step(feeds, cells, levels)
        with without_collections():
            results = self._recorded_run(recorder, feeds, cells, levels)
            if recorder.conflicts:
                self._unrolls = False
                return results
            self._keep(recorder, feeds, cells)
        seconds, shapes = time.perf_counter() - start, [list(feed.shape) for feed in feeds]
        _log.info("recorded a step for feeds of shapes %s in %.2f s", shapes, seconds)
        return results

    def _keep(self, recorder: StepRecorder, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        """Makes a step of what was recorded."""
        recording = recorder.recording
        steps = _packed(by_panels(simplify(recording.steps)))
        names = recording.names_of(self.interpreted)
        in_place = self._in_place and flags.value("refluid_last_uses")
        write = partial(_write, code=self.interpreted, names=names, in_place=in_place)
        make_room(large_at_once(steps))
        self._now.current = Recorded(write(steps), feeds, cells)
        tries = self._compiles or flags.value("refluid_tier") == "compiled"
        if tries and not self._pauses:
            self._now.current.trial = Trial(lambda: write(_compiled(steps)))
        self._now.made.append(self._now.current)

    def _pausing(self) -> Code:
        """The code that records a step which pauses, unless such steps are never finished."""
        self._begun += 1
        if self._begun > UNFINISHED:
            self._give_up("steps are not finished")
            return self.interpreted
        step: Any = self._record_pausing
        return self.interpreted.with_step(step)

    def _record_pausing(
        self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any
    ) -> Generator[Any, Any, StepResults]:
        recorder = self._recorder()
        try:
            recorder.check(feeds, cells)
        except Refused as error:
            self._give_up(str(error))
            step: Any = self.interpreted.step
            results: StepResults = yield from step(feeds, cells, levels)
            return results
        results = yield from recorder.steps(feeds, cells, levels)
        self._begun -= 1
        self._keep(recorder, feeds, cells)
        return results

    def _tabulate(self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any) -> StepResults:
        """Runs one step, operator by operator, and adds it to the table of sizes it fits."""
        recorder = self._recorder()
        try:
            recorder.check(feeds, cells)
        except Refused as error:
            self._now.tables.close(str(error))
            return self.interpreted.step(feeds, cells, levels)
        with without_collections():
            results = self._recorded_run(recorder, feeds, cells, levels)
            self._now.current = self._now.tables.add(recorder.recording, feeds, cells)
        return results

    def _recorder(self, *, unrolls: bool = False) -> StepRecorder:
        """A new one; the plan is prepared once."""
        unrolls = unrolls and bool(flags.value("refluid_unrolled_loops"))
        recorder = StepRecorder(self.interpreted, self._body, unrolls=unrolls)
        self._body = recorder.body
        return recorder

    def _recorded_run(
        self, recorder: StepRecorder, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any
    ) -> StepResults:
        # What recording makes stays, as what kernels make in their first run does.
        with first_run(self.interpreted.source.constants["device"]):
            results: StepResults = recorder.run(feeds, cells, levels)
        return results

    def _give_up(self, reason: str) -> None:
        self._now.given_up = True
        made = self._now.made or self._now.tables.made
        which = "feeds of other shapes are" if made else "a plan stays"
        _log.info("%s interpreted: %s", which, reason)


def _packed(steps: list[Part]) -> list[Part]:
    products = (one for one in steps if isinstance(one, Kernel) and one.name == "mm")
    uses = Counter(one.args[1] for one in products).values()
    if not flags.value("refluid_packed_weights") or max(uses, default=0) < USES:
        return steps
    from refluid.runtime.recorded.packing import packed  # most programs use a weight once

    return packed(steps)


def _compiled(steps: Sequence[Part]) -> list[Part | Compiled]:
    from refluid.runtime.recorded.compile import compile_steps  # most programs stay recorded
    from refluid.runtime.recorded.gathering import checked_lookups, gathered

    if not flags.value("refluid_gathered_kernels"):
        return compile_steps(steps)
    lookups = checked_lookups(steps)
    return compile_steps(gathered(steps, lookups), lookups=lookups)


def _write(
    steps: Sequence[Part | Compiled], code: Code, names: Mapping[Key, Name], *, in_place: bool
) -> Code:
    steps = over_last_uses(steps) if in_place else steps
    source = Text(code.source.constants).write(steps)
    written = Code(source, names, "recording")
    if code.source.constants["device"].type not in GRAPHED:
        return written
    from refluid.runtime.recorded.capture import captured  # most machines have no GPU

    return captured(written, steps, code)
