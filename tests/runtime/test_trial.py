"""The race between a recorded step and its compiled form: Ctrl-C doesn't end it early."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

from refluid.runtime.code import Code
from refluid.runtime.recorded.trial import Trial


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
        assert done.wait(20)
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
