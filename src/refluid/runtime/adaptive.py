"""Runs the steps of a plan by as many threads as `thread_choice` says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from refluid.core.thread_choice import ThreadChoice
from refluid.core.threads import by_threads, free_threads
from refluid.core.waiting import Waiting
from refluid.runtime.recorded.trial import undecided

_log = logging.getLogger("refluid")
_T = TypeVar("_T")

# The step that is timed. One inside it, or beside it in another thread, is not. No lock: Ctrl-C
# may come between what takes one and what would let go of it, but not within `append`.
_timed: list[Callable[..., Any]] = []
# What the plan that decided last chose, of how many: others begin with it.
_latest = (0, 0)


class AdaptiveThreads:
    """The number of threads for the steps of one plan.

    It is torch's, unless `free_threads` says that it may be another.
    """

    def __init__(self) -> None:
        self._choice: ThreadChoice | None = None

    def run(self, step: Callable[..., _T], *given: Any) -> _T:
        """`step(*given)`; torch's number of threads is the same afterwards."""
        most = free_threads()
        if most == 1:
            return step(*given)
        choice = self._choice
        if choice is None or choice.most != most:
            choice = self._choice = _begun(most)
        if _timed:
            return by_threads(choice.threads, step, *given)
        try:
            _timed.append(step)
            return _run_timed(choice, step, given)
        finally:
            _timed.clear()


def _run_timed(choice: ThreadChoice, step: Callable[..., _T], given: Any) -> _T:
    start = time.perf_counter()
    threads = choice.begin(start)
    if threads == choice.most:
        result = step(*given)
    else:
        result = by_threads(threads, step, *given)
    end = time.perf_counter()
    choice.end(end, end - start)
    if choice.changes:
        _note(choice)
    return result


def _begun(most: int) -> ThreadChoice:
    waiting = Waiting()
    first, of = _latest
    return ThreadChoice(
        most,
        lambda: None if undecided() else waiting(),
        first=first if of == most else None,
    )


def _note(choice: ThreadChoice) -> None:
    global _latest
    _latest = choice.threads, choice.most
    _log.info("%s", choice.changes)
    choice.changes = ""
