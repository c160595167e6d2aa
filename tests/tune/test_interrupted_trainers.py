"""Trainers that are asked together: on Ctrl-C they are ended, and the first failure is said."""

from __future__ import annotations

from typing import Any

import pytest

from refluid.tune import trainers
from refluid.tune.session import NoLoop, Script
from tests.interrupting import Lingering, interrupted_in

pytestmark = pytest.mark.usefixtures("ctrl_c")
SCRIPT = Script(["none"], trainers=2)


class _Waiting:
    """A session that arrives nowhere until it is ended."""

    made: list[_Waiting]

    def __init__(self, *_: Any) -> None:
        self.work = Lingering()
        self.made.append(self)

    def arrive(self) -> None:
        self.work()
        raise NoLoop("it was ended")

    def end(self) -> None:
        self.work.end()

    close = end


class _Failing(_Waiting):
    """As that, but the second one fails by itself."""

    def arrive(self) -> None:
        if self is self.made[1]:
            raise NoLoop("there is no loop")
        super().arrive()


def test_ctrl_c_ends_trainers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Waiting, "made", [], raising=False)
    monkeypatch.setattr(trainers, "Session", _Waiting)
    with interrupted_in("_of_each"):
        trainers.Trainers(SCRIPT)
    assert [one.work.over for one in _Waiting.made] == [True, True]


def test_the_failure_that_ended_the_others_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Waiting, "made", [], raising=False)
    monkeypatch.setattr(trainers, "Session", _Failing)
    with pytest.raises(NoLoop, match="there is no loop"):
        trainers.Trainers(SCRIPT)
    assert _Failing.made[0].work.over
