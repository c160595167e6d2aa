"""The race between a recorded step and its compiled form: Ctrl-C doesn't end it early."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
import torch

from refluid.kernels.products import limits
from refluid.runtime.code import Code
from refluid.runtime.recorded import trial as trials
from refluid.runtime.recorded.trial import Trial, undecided


@dataclass
class _Holder:
    code: Code
    trial: Trial | None


def _asked(trial: Trial, holder: _Holder, at: int) -> bool:
    """Asks for the next step's code; Ctrl-C comes at the call number `at`, if there are so many."""
    left = at

    def profile(_: FrameType, event: str, __: Any) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        trial.next(holder)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_ctrl_c_at_any_call_leaves_the_compiler_running() -> None:
    done, recorded = threading.Event(), Code.__new__(Code)

    def compiling() -> Code:
        assert done.wait(60)
        return recorded

    trial = Trial(compiling)
    holder = _Holder(recorded, trial)
    trial.next(holder)
    at = 0
    while _asked(trial, holder, at):
        at += 1
        assert trial.next(holder) is recorded
        assert holder.trial is trial
    done.set()
    trial._thread.join()
    assert at > 0


def test_undecided_are_those_that_began() -> None:
    recorded, before, asked = Code.__new__(Code), undecided(), threading.Event()

    def failing() -> Code:
        assert asked.wait(60)
        raise ValueError("not compiled")

    trial = Trial(failing)
    holder = _Holder(recorded, trial)
    assert undecided() == before
    trial.next(holder)
    assert undecided() == before + 1
    asked.set()
    trial._thread.join()
    assert trial.next(holder) is recorded
    assert undecided() == before
    assert holder.trial is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_code_is_made_for_the_threads_of_the_step(count: int) -> None:
    former, seen = torch.get_num_threads(), []
    torch.set_num_threads(count)
    begun = threading.Event()

    def compiling() -> Code:
        assert begun.wait(20)
        seen.append(torch.get_num_threads())
        return Code.__new__(Code)

    try:
        trial = Trial(compiling)
        trial.next(_Holder(Code.__new__(Code), trial))
        torch.set_num_threads(4)  # as a step by another number does
        begun.set()
        trial._thread.join()
    finally:
        torch.set_num_threads(former)
    assert seen == [count]


def test_there_is_none_where_repeatable_numbers_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiled code is used from its first step on: which step that is doesn't follow from time."""
    monkeypatch.setattr(limits, "repeatable", True)
    recorded, compiled, before = Code.__new__(Code), Code.__new__(Code), undecided()
    trial = Trial(lambda: compiled)
    holder = _Holder(recorded, trial)
    assert trial.next(holder) is holder.code is compiled
    assert holder.trial is None
    assert undecided() == before


# Of each kind the seconds that its steps take, by number, and which is kept.
RACES: dict[str, tuple[Callable[[int], float], Callable[[int], float], bool, int]] = {
    "long steps": (lambda n: 1.0, lambda n: 0.9, True, 5),
    "the first is slow": (lambda n: 1.0, lambda n: 0.9 if n else 9.0, True, 5),
    "slower": (lambda n: 1.0, lambda n: 1.1, False, 5),
    "short steps": (lambda n: 1e-4, lambda n: 9e-5, True, 50),
    "pauses at first": (lambda n: 1e-4, lambda n: 9e-5 if n > 8 else 1e-3, True, 50),
    "more and more pauses": (lambda n: 1e-4, lambda n: 9e-5 + (n % 7 < 4) * 2e-5, True, 50),
    "a tenth of a second": (lambda n: 0.005, lambda n: 0.0051, False, 20),
}


@pytest.mark.parametrize("race", RACES)
def test_so_many_steps_are_timed_that_pauses_decide_nothing(
    race: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes, compiled_takes, kept, count = RACES[race]
    recorded, compiled = Code.__new__(Code), Code.__new__(Code)

    def timed(code: Code, times: list[float], _clock: object) -> Code:
        times.append((takes if code is recorded else compiled_takes)(len(times)))
        return code

    monkeypatch.setattr(trials, "_timed", timed)
    trial = Trial(lambda: compiled)
    holder = _Holder(recorded, trial)
    trial.next(holder)
    trial._thread.join()
    while holder.trial:
        trial.next(holder)
    assert (holder.code is compiled) == kept
    assert [*map(len, trial._seconds)] == [count, count + 1]
