"""The race between a recorded step and its compiled form: Ctrl-C doesn't end it early."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
import torch

from refluid.runtime.code import Code
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
