"""Compiles a recorded step in the background, and lets measurement decide whether it is used."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from numpy import quantile

from refluid.core.background import BackgroundThread
from refluid.core.threads import begin_thread
from refluid.kernels.products import limits
from refluid.runtime.code import Code

_log = logging.getLogger("refluid")

# So many steps of each kind are timed, in turn, after one of the compiled code to warm up; of short
# ones more, up to so many, until they took so many seconds: else a pause of the machine decides.
_TIMED, _MOST, _SECONDS = 5, 50, 0.1


# All that began and are not decided yet.
_open: weakref.WeakSet[Trial] = weakref.WeakSet()


_at_once = False


@contextmanager
def compiling_at_once() -> Iterator[None]:
    """Within the block every step is compiled before it runs, and used faster or not: to verify
    what compiled steps compute."""
    global _at_once
    former, _at_once = _at_once, True
    try:
        yield
    finally:
        _at_once = former


def undecided() -> int:
    """How many steps are still being compiled or timed: those that follow may be faster."""
    return len(_open)


def compiling() -> int:
    """How many of them wait for the compiler, so that further steps tell nothing new yet."""
    return sum(one.is_compiling for one in list(_open))


class Holder(Protocol):
    """What holds the code that a trial may replace."""

    code: Code
    trial: Trial | None


class Trial:
    """The race between recorded kernels and the function compiled of them.

    The compiler starts when the step comes a second time. Training goes on meanwhile: every step
    is run once, by one or the other.
    """

    def __init__(self, compile_code: Callable[[], Code]) -> None:
        self._compile = compile_code
        self._compiled: Code | None = None
        self._failed = ""
        self._took: float | None = None  # seconds, once the compiler has ended
        self._operator_threads = 1
        self._seconds: tuple[list[float], list[float]] = ([], [])
        self._thread = BackgroundThread(self._work, "refluid-compile")

    def _work(self) -> None:
        start = time.perf_counter()
        begin_thread(self._operator_threads)  # code is made for as many as the step has
        try:
            self._compiled = self._compile()
        except Exception as error:  # whatever the compiler stumbled over, training goes on
            text = str(error).strip().splitlines()
            self._failed = f"{type(error).__name__}: {text[0] if text else ''}"
        finally:
            self._took = time.perf_counter() - start

    @property
    def is_compiling(self) -> bool:
        """Whether the compiler is at work."""
        return self._took is None

    def next(self, holder: Holder) -> Code:
        """The code of the next step; ends the trial once it is decided."""
        if _at_once or limits.repeatable:  # else the clock decides which step gives other numbers
            return self._forced(holder)
        if self._thread.ident is None:
            _open.add(self)
            self._operator_threads = torch.get_num_threads()
            self._thread.start()
        if self._took is None:
            return holder.code
        if self._compiled is None:
            _log.warning("a step stays recorded; it could not be compiled: %s", self._failed)
            self._end(holder)
            return holder.code
        recorded, compiled = self._seconds
        if len(compiled) > _TIMED and (len(compiled) > _MOST or sum(compiled[1:]) >= _SECONDS):
            self._end(holder)
            return self._decide(holder)
        mine = len(recorded) < len(compiled)
        code, times = (holder.code, recorded) if mine else (self._compiled, compiled)
        # Of one thread its work is timed, which doesn't depend on what else the machine does.
        alone = torch.get_num_threads() == 1 and not torch.cuda.is_available()
        return _timed(code, times, time.thread_time if alone else time.perf_counter)

    def _forced(self, holder: Holder) -> Code:
        if self._took is None:
            self._work()
        if self._compiled is None:
            _log.warning("a step stays recorded; it could not be compiled: %s", self._failed)
        holder.code, holder.trial = self._compiled or holder.code, None
        return holder.code

    def _end(self, holder: Holder) -> None:
        holder.trial = None
        _open.discard(self)

    def _decide(self, holder: Holder) -> Code:
        assert self._compiled is not None
        first, second = self._seconds
        recorded, compiled = (float(quantile(times, 0.25)) for times in (first, second[1:]))
        if compiled < recorded:
            holder.code = self._compiled
        _log.info(
            "compiled a step in %.1f s: %.3f ms instead of %.3f ms; %s",
            self._took,
            compiled * 1e3,
            recorded * 1e3,
            "it is used" if compiled < recorded else "it is not used",
        )
        return holder.code


def _timed(code: Code, times: list[float], clock: Callable[[], float]) -> Code:
    def step(*given: Any) -> Any:
        start = clock()
        results = code.step(*given)
        times.append(clock() - start)
        return results

    return code.with_step(step)
