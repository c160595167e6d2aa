"""Moves a plan with sequences from its operators to the calls that these make."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from refluid.core import flags
from refluid.core.scope import Cell
from refluid.kernels.collecting import without_collections
from refluid.runtime.code import Code, PreparedStep, prepared
from refluid.runtime.inlined.inliner import DeclaredSizes, Inliner
from refluid.runtime.inlined.writing import with_placeholders, written
from refluid.runtime.recorded.fitting import Recorded
from refluid.runtime.recorded.tiers import before_recording
from refluid.runtime.steps import Free, Return

_log = logging.getLogger("refluid")

# So many ways are written; one that so many steps left half-way is written anew.
WAYS, LEFT = 8, 4

StepResults = tuple[Any, Any]


class _Fitting(Recorded):
    """Variables as they were; of feeds the ways' own conditions tell."""

    def _fits_feeds(self, feeds: Sequence[Tensor]) -> bool:
        return len(feeds) == len(self.feeds)


class InlinedTiers:
    """A plan by its operators, or written out: `fitting` and `choose` as those of `Tiers`.

    Each way through the plan has its conditions. A step goes by the first way whose first
    conditions hold; where a later one doesn't, the operators do the rest of it.
    """

    def __init__(self, code: Code, declared: DeclaredSizes) -> None:
        self.interpreted, self._declared = code, declared
        self._body: list[PreparedStep] | None = None
        self._forget()

    def _forget(self) -> None:
        self._flags = flags.state()
        self._fits: _Fitting | None = None
        self._ways: list[Code] = []
        self._left: Counter[int] = Counter()
        self._stale: int | None = None
        self._steps = self._written = 0
        tier = flags.value("refluid_tier")
        wanted = tier != "interpreted" and flags.value("refluid_inlined_operators")
        self._given_up = not wanted

    @property
    def ways(self) -> Sequence[Code]:
        """The ways through the plan that are written."""
        return self._ways

    @property
    def left(self) -> int:
        """How many steps left their way, and were finished by the operators."""
        return self._left.total()

    def fitting(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> Code | None:
        """The code to run this step by, where it is as the last one was."""
        fits = self._fits
        if fits is None or self._stale is not None or self._flags != flags.state():
            return None
        return self._ways[0] if fits.fits(feeds, cells) else None

    def choose(self, *_given: Any) -> Code:
        """The code to run this step by, where none was `fitting`."""
        if flags.state() != self._flags:
            self._forget()
        if self._given_up or self._written == WAYS:
            return self.interpreted
        self._steps += 1
        if self._steps <= before_recording(len(self.interpreted.source.steps)):
            return self.interpreted
        if self._stale is None:  # feeds or variables are others than before
            self._ways, self._fits = [], None
            self._left.clear()
        return self.interpreted.with_step(self._write)

    def _write(self, feeds: Any, cells: Sequence[Cell], levels: Any) -> StepResults:
        """Runs one step, operator by operator, and adds the way that it took."""
        begin = time.perf_counter()
        if self._body is None:
            self._body = prepared(self.interpreted)
        constants = self.interpreted.source.constants
        inliner = Inliner(constants, self._body, self._declared)
        with without_collections():
            results: StepResults = inliner.run(feeds, cells, levels)
            self._keep(inliner, feeds, cells)
        seconds = time.perf_counter() - begin
        as_they_are = ", ".join(f"{many} {why}" for why, many in inliner.refused.items())
        _log.info("wrote out %d operators in %.2f s", inliner.inlined, seconds)
        _log.debug("operators that stay as they are: %s", as_they_are or "none")
        return results

    def _keep(self, inliner: Inliner, feeds: Any, cells: Sequence[Cell]) -> None:
        self._written += 1
        if not inliner.inlined:
            self._given_up, self._stale = True, None
            return
        number = len(self._ways) if self._stale is None else self._stale
        source = written(inliner, partial(self._next, number + 1), partial(self._rest, number))
        self._ways[number : number + 1] = [Code(source, self.interpreted.names, "inlined")]
        self._fits = self._fits or _Fitting(self._ways[0], feeds, cells)
        self._stale = None

    def _next(self, number: int, feeds: Any, cells: Any, levels: Any) -> StepResults:
        """Runs a step that the ways before don't fit."""
        if number < len(self._ways):
            return self._ways[number].run(feeds, cells, levels)
        new = self._written < WAYS
        code = self.interpreted.with_step(self._write) if new else self.interpreted
        return code.run(feeds, cells, levels)

    def _rest(self, way: int, number: int, variables: Mapping[str, Any]) -> StepResults:
        """Runs what is left of a step from one of the plan's on, by its operators."""
        assert self._body is not None
        self._left[way] += 1
        if self._left[way] % LEFT == 0 and self._written < WAYS:
            self._stale = way
        namespace = self.interpreted.source.constants | with_placeholders(variables)
        left = self._body[number:]

        def go_on(*_given: Any) -> StepResults:
            for one in left:
                if isinstance(one.step, Return):
                    results: StepResults = eval(one.code, namespace)
                    return results
                if isinstance(one.step, Free):
                    for name in one.step.names:
                        namespace.pop(name, None)
                else:
                    exec(one.code, namespace)
            raise AssertionError("a plan returns")

        return self.interpreted.with_step(go_on).run(None, None, None)
