"""Runs the replicas of a program as one step in one thread, once the same shapes came often."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.runtime.code import Code
from refluid.runtime.codegen import Request
from refluid.runtime.joined.rehearsal import Refused, Unlike, rehearse
from refluid.runtime.joined.shared import Shared
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.recorded.tiers import BEFORE, KEPT, SHAPES, Recorded
from refluid.runtime.replicas import Replicas
from refluid.runtime.scope import Cell, Scope

_log = logging.getLogger("refluid")
Feeds = Sequence[Sequence[Tensor]]
Rows = list[list[Cell]]


class _Step:
    """One joined step, what it was made for, and the variables that it is run with."""

    def __init__(self, code: Code, feeds: Feeds, rows: Rows, differing: set[int]) -> None:
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
        self.made_for = Recorded(code, _flat(feeds), self.cells)

    def fits(self, feeds: Sequence[Tensor]) -> bool:
        """Whether feeds and variables are of the shapes and types of the recording."""
        return self.made_for.fits(feeds, self.cells)


class Joined:
    """The joined steps of one program, its feeds and its fetches.

    requests: the program of each replica, all of which make every update. `run` is None where
    the replicas have to run in their threads.
    """

    def __init__(self, requests: Sequence[Request], replicas: Replicas, shared: Shared) -> None:
        self._requests, self._replicas, self._shared = requests, replicas, shared
        self._plans: list[Plan] = []
        self._steps: list[_Step] = []
        self._counts: dict[Any, int] = {}
        self._changes = -1
        self._given_up = False

    @property
    def is_used(self) -> bool:
        """Whether there are joined steps."""
        return bool(self._steps)

    def run(self, scopes: Sequence[Scope], feeds: Feeds) -> list[list[Fetched]] | None:
        """One step; for each fetch the values of all replicas, by rank."""
        step = self._find(scopes, feeds)
        if step is None:
            return None
        try:
            with torch.no_grad():
                results: Any = step.code.step(feeds, step.rows, [])
        except Exception as error:
            clear = step.code.explain(error)
            if clear is error:
                raise
            raise clear from error
        return [[Fetched(value, []) for value in fetched] for fetched in results]

    def _find(self, scopes: Sequence[Scope], feeds: Feeds) -> _Step | None:
        if flags.changes() != self._changes:
            self._forget()
        if self._given_up:
            return None
        flat = _flat(feeds)
        for number, step in enumerate(self._steps):
            if step.fits(flat):
                if not self._shared.hold(step.same, step.own):
                    self._give_up("the replicas' variables are no longer the same")
                    return None
                if number:
                    self._steps.insert(0, self._steps.pop(number))
                return step
        return self._search(scopes, feeds)

    def _forget(self) -> None:
        self._changes = flags.changes()
        self._steps, self._counts, self._plans = [], {}, []
        wanted = flags.value("refluid_replicas") == "auto"
        self._given_up = not wanted or flags.value("refluid_tier") == "interpreted"

    def _search(self, scopes: Sequence[Scope], feeds: Feeds) -> _Step | None:
        keys = [tuple((t.shape, t.dtype, t.stride()) for t in one) for one in feeds]
        if any(key != keys[0] for key in keys):
            return None
        self._counts[keys[0]] = count = self._counts.get(keys[0], 0) + 1
        patience = 0 if flags.value("refluid_tier") in ("recorded", "compiled") else BEFORE
        if len(self._steps) == KEPT or len(self._counts) > SHAPES:
            self._give_up("their shapes change too often")
        elif count == patience + 1:
            return self._make(scopes, feeds)
        return None

    def _make(self, scopes: Sequence[Scope], feeds: Feeds) -> _Step | None:
        start = time.perf_counter()
        self._plans = self._plans or [Plan(request) for request in self._requests]
        rows = [plan.cells(scope) for plan, scope in zip(self._plans, scopes, strict=True)]
        try:
            if not all(plan.is_recordable for plan in self._plans):
                raise Unlike("their plans cannot be recorded")
            code, differing = rehearse(self._plans, feeds, rows, self._replicas.run)
        except (Refused, Unlike) as error:
            self._give_up(str(error))
            return None
        step = _Step(code, feeds, rows, differing)
        if not self._shared.hold(step.same, step.own):
            return None
        self._steps.insert(0, step)
        seconds, shapes = time.perf_counter() - start, [list(one.shape) for one in feeds[0]]
        _log.info("joined replicas for feeds of shapes %s in %.2f s", shapes, seconds)
        return step

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        self._steps, self._plans = [], []
        _log.info("replicas stay in their threads: %s", reason)


def _flat(feeds: Feeds) -> list[Tensor]:
    return [tensor for one in feeds for tensor in one]
