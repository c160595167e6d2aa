"""Runs the replicas of a program as one step in one thread, once the same shapes came often."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from refluid.core import flags
from refluid.core.scope import Cell, Scope
from refluid.core.threads import by_threads, threads_of_all
from refluid.kernels.settings import without_gradients
from refluid.runtime.adaptive import AdaptiveThreads
from refluid.runtime.batched.exchange import whole
from refluid.runtime.batched.shared import Shared
from refluid.runtime.batched.together import ReplicaResults, Together
from refluid.runtime.batched.trial_run import Refused, Unlike, trial_run
from refluid.runtime.code import Code
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.recorded.fitting import Recorded
from refluid.runtime.recorded.tiers import KEPT, before_recording
from refluid.runtime.replicas import Replicas
from refluid.runtime.request import Request

_log = logging.getLogger("refluid")

# Replicas that meet more different shapes than this stay in their threads.
SHAPES = 32

Feeds = Sequence[Sequence[Tensor]]
Rows = list[list[Cell]]


class _BatchedStep:
    """One batched step, what it was made for, and the variables that it is run with."""

    def __init__(
        self, code: Code, feeds: Sequence[Tensor], rows: Rows, differing: set[int]
    ) -> None:
        self.code, self.rows = code, rows
        first = rows[0]
        self.same = [
            (first[number], row[number])
            for row in rows[1:]
            for number in range(len(first))
            if number not in differing and row[number] is not first[number]
        ]
        self.own = [
            (first[number], row[number]) for row in rows[1:] for number in sorted(differing)
        ]
        self.cells = [*first, *(cell for _, cell in self.own)]
        self.made_for = Recorded(code, feeds, self.cells)
        self._held_at: tuple[int, int] | None = None

    def fits(self, feeds: Sequence[Tensor]) -> bool:
        """Whether feeds and variables are of the shapes and types of the recording."""
        return self.made_for.fits(feeds, self.cells)

    def hold(self, shared: Shared) -> bool:
        """Makes variables one or several, as the step has them; False where that is impossible."""
        if self._held_at != (self.made_for.renewals, shared.changes):
            if not shared.hold(self.same, self.own):
                return False
            self._held_at = self.made_for.renewals, shared.changes
        return True


class BatchedReplicas:
    """The batched steps of one program, its feeds and its fetches.

    requests: the program of each replica, all of which make every update. scopes: those of the
    replicas. `run` and `run_whole` are None where the replicas have to run in their threads.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        scopes: Sequence[Scope],
        replicas: Replicas,
        shared: Shared,
    ) -> None:
        self._requests, self._scopes = requests, scopes
        self._replicas, self._shared = replicas, shared
        self._threads = AdaptiveThreads()
        self._plans: list[Plan] = []
        self._steps: list[_BatchedStep] = []
        self._counts: dict[Any, int] = {}
        self._makes = 0
        self._made_under: tuple[int, int] | None = None
        self._given_up = False

    @property
    def is_used(self) -> bool:
        """Whether there are batched steps."""
        return bool(self._steps)

    def run(self, feeds: Feeds) -> ReplicaResults | None:
        """One step with what each replica is fed; for each fetch all replicas' values, by rank."""
        if self._is_out_of_date():
            self._forget()
        if self._given_up:
            return None
        metas = [[(t.shape, t.dtype, t.stride()) for t in one] for one in feeds]
        if any(meta != metas[0] for meta in metas):
            return None
        found = self.run_whole(_together(feeds)) if self._steps else None
        if found is None:
            step = self._search(tuple(metas[0]), feeds)
            found = self._run(step, _together(feeds)) if step is not None else None
        return found

    def run_whole(self, feeds: Sequence[Tensor]) -> ReplicaResults | None:
        """`run` with tensors of the rows of all replicas, one after the other."""
        step = None if self._is_out_of_date() else self._find(feeds)
        return self._run(step, feeds) if step is not None else None

    def _run(self, step: _BatchedStep, feeds: Sequence[Tensor]) -> ReplicaResults:
        def run() -> Any:
            return self._threads.run(step.code.run, feeds, step.rows, [])

        results = without_gradients(by_threads, threads_of_all(self._replicas.size), run)
        return [
            Together(found) if isinstance(found, Tensor) else [Fetched(value) for value in found]
            for found in results
        ]

    # -- which step -----------------------------------------------------------

    def _now(self) -> tuple[int, int]:
        """Differs when flags do, or the user erased something from the scope."""
        return flags.state(), sum(scope.erasures for scope in self._scopes)

    def _is_out_of_date(self) -> bool:
        return self._now() != self._made_under

    def _forget(self) -> None:
        self._made_under = self._now()
        self._steps, self._counts, self._plans, self._makes = [], {}, [], 0
        wanted = flags.value("refluid_replicas") == "auto"
        self._given_up = not wanted or flags.value("refluid_tier") == "interpreted"

    def _find(self, feeds: Sequence[Tensor]) -> _BatchedStep | None:
        """The step that was made for such feeds, if it still can be used."""
        for number, step in enumerate(self._steps):
            if step.fits(feeds):
                if not step.hold(self._shared):
                    del self._steps[number]
                    return None
                if number:
                    self._steps.insert(0, self._steps.pop(number))
                return step
        return None

    def _search(self, key: Any, feeds: Feeds) -> _BatchedStep | None:
        self._counts[key] = count = self._counts.get(key, 0) + 1
        patience = before_recording()
        if self._makes == KEPT or len(self._counts) > SHAPES:
            self._give_up("their shapes change too often")
        elif count > patience:
            return self._make(feeds)
        return None

    def _make(self, feeds: Feeds) -> _BatchedStep | None:
        start = time.perf_counter()
        self._makes += 1
        self._plans = self._plans or [Plan(request) for request in self._requests]
        rows = [plan.cells(scope) for plan, scope in zip(self._plans, self._scopes, strict=True)]
        try:
            if not all(plan.is_recordable for plan in self._plans):
                raise Unlike("their plans cannot be recorded")
            code, differing = trial_run(self._plans, feeds, rows, self._replicas.run)
        except (Refused, Unlike) as error:
            self._give_up(str(error))
            return None
        step = _BatchedStep(code, _together(feeds), rows, differing)
        if not step.hold(self._shared):
            self._give_up("the replicas' variables differ")
            return None
        self._steps.insert(0, step)
        seconds, shapes = time.perf_counter() - start, [list(one.shape) for one in feeds[0]]
        _log.info("batched replicas for feeds of shapes %s in %.2f s", shapes, seconds)
        return step

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        self._steps, self._plans = [], []
        _log.info("replicas stay in their threads: %s", reason)


def _together(feeds: Feeds) -> list[Tensor]:
    """What all replicas are fed, the rows of one after those of the other."""
    return [whole(parts) for parts in zip(*feeds, strict=True)]
