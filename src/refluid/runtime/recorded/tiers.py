"""Moves a plan from its operators to recorded kernels, once the same shapes came a few times."""

from __future__ import annotations

import logging
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.runtime.code import Code
from refluid.runtime.recorded.capture import Captured, CudaGraph, is_capturable
from refluid.runtime.recorded.compile import compile_steps
from refluid.runtime.recorded.graph import Compiled, Step, Value
from refluid.runtime.recorded.record import Recorder, Refused
from refluid.runtime.recorded.simplify import simplify
from refluid.runtime.recorded.text import Text
from refluid.runtime.recorded.trial import Trial
from refluid.runtime.scope import Cell

_log = logging.getLogger("refluid")

# A step is recorded when its shapes come for the fourth time; so many recordings are kept, and
# a plan that saw so many different shapes is left alone.
BEFORE, KEPT, SHAPES = 3, 8, 32

Meta = tuple[torch.Size, torch.dtype, tuple[int, ...]]
Results = tuple[Any, Any]


class Recorded:
    """One recorded step: its code, and what it was recorded for."""

    def __init__(self, code: Code, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        self.code = code
        self.trial: Trial | None = None
        self.feeds = [_meta(feed) for feed in feeds]
        self.state = [_meta(cell.value) for cell in cells]
        self._remember(cells)

    def fits(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> bool:
        """Whether feeds and variables are of the shapes, types and layouts of the recording."""
        for feed, meta in zip(feeds, self.feeds, strict=True):
            if (feed.shape, feed.dtype, feed.stride()) != meta:
                return False
        for cell, seen in zip(cells, self._seen, strict=True):
            if cell.value is not seen():
                return self._fits_anew(cells)
        return True

    def _fits_anew(self, cells: Sequence[Cell]) -> bool:
        if [_meta(cell.value) for cell in cells] != self.state:
            return False
        self._remember(cells)
        return True

    def _remember(self, cells: Sequence[Cell]) -> None:
        self._seen: list[Callable[[], Any]] = [_weak(cell.value) for cell in cells]


def _meta(value: Any) -> Meta | None:
    return (value.shape, value.dtype, value.stride()) if isinstance(value, Tensor) else None


def _weak(value: Any) -> Callable[[], Any]:
    if isinstance(value, Tensor):
        return weakref.ref(value)
    # Another object of this kind is looked at anew each time, None is the same everywhere.
    return (lambda: None) if value is None else object


class Tiers:
    """The tiers of one plan: `run` takes the fastest that fits, FLAGS_refluid_tier permitting."""

    def __init__(self, code: Code, *, compiles: bool = False) -> None:
        self.interpreted = code
        self._compiles = compiles
        self._current: Recorded | None = None
        self._made: list[Recorded] = []
        self._counts: Counter[tuple[Meta | None, ...]] = Counter()
        self._changes = flags.changes()
        self._given_up = flags.value("refluid_tier") == "interpreted"

    def choose(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code:
        """The code to run this step by."""
        if flags.changes() != self._changes:
            self._forget()
        current = self._current
        if current is not None and current.fits(feeds, cells):
            return current.code if current.trial is None else current.trial.next(current)
        if self._given_up:
            return self.interpreted
        return self._search(feeds, cells)

    def _forget(self) -> None:
        self._current, self._made = None, []
        self._counts.clear()
        self._changes = flags.changes()
        self._given_up = flags.value("refluid_tier") == "interpreted"

    def _search(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code:
        for one in self._made:
            if one.fits(feeds, cells):
                self._current = one
                return one.code
        key = tuple(_meta(feed) for feed in feeds)
        self._counts[key] += 1
        patience = 0 if flags.value("refluid_tier") in ("recorded", "compiled") else BEFORE
        if len(self._made) == KEPT or len(self._counts) > SHAPES:
            self._give_up("its shapes change too often")
        elif self._counts[key] > patience:
            return self.interpreted.with_step(self._record)
        return self.interpreted

    def _record(self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any) -> Results:
        """Runs one step, operator by operator, and keeps a recording of it."""
        start = time.perf_counter()
        code = self.interpreted
        recorder = Recorder(code)
        try:
            recorder.check(feeds, cells)
        except Refused as error:
            self._give_up(str(error))
            return code.step(feeds, cells, levels)
        results: Results = recorder.run(feeds, cells, levels)
        recording = recorder.recording
        steps, write = simplify(recording.steps), partial(_write, code=code, last=recording.names)
        self._current = Recorded(write(steps), feeds, cells)
        if self._compiles or flags.value("refluid_tier") == "compiled":
            self._current.trial = Trial(lambda: write(compile_steps(steps)))
        self._made.append(self._current)
        seconds, shapes = time.perf_counter() - start, [list(feed.shape) for feed in feeds]
        _log.info("recorded a step for feeds of shapes %s in %.2f s", shapes, seconds)
        return results

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        _log.info("a plan stays interpreted: %s", reason)


def _write(steps: Sequence[Step | Compiled], code: Code, last: Mapping[str, Value]) -> Code:
    source = Text(code.source.constants).write(steps)
    names = {key: last[name].name for key, name in code.names.items() if name in last}
    written = Code(source, names, "recording")
    if not is_capturable(steps, code.source.constants["device"]):
        return written
    random = code.source.constants["random"]
    return written.with_step(Captured(written.step, lambda: CudaGraph([random(0)])))
