"""What is done when objects go away, by a thread that outlives interrupts and failures."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from refluid.feed.closing import _Janitor


class _Interrupted(dict[Any, Any]):
    """Ctrl-C comes before the first thing is kept."""

    lost: Any = None  # what a traceback would keep alive

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.lost is None:
            self.lost = value
            raise KeyboardInterrupt
        super().__setitem__(key, value)


class _Thing:
    """Something that can go away."""


def _goes(janitor: _Janitor) -> bool:
    """Whether an action is called once its object has gone."""
    thing, called = _Thing(), threading.Event()
    janitor.expect(thing, called.set)
    del thing
    return called.wait(60)


def test_an_interrupt_before_the_action_is_known_stops_nothing() -> None:
    janitor = _Janitor()
    janitor._actions = _Interrupted()
    thing = _Thing()
    with pytest.raises(KeyboardInterrupt):
        janitor.expect(thing, lambda: None)
    del thing
    assert _goes(janitor) and _goes(janitor)


def test_an_action_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    janitor, thing = _Janitor(), _Thing()

    def fail() -> None:
        raise RuntimeError("as asked")

    janitor.expect(thing, fail)
    del thing
    assert _goes(janitor)
    assert "closing what a reader left behind failed" in caplog.text
