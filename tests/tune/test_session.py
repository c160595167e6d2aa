"""What a session does where its script says nothing."""

from __future__ import annotations

import socket
import time

import pytest

from refluid.tune.session import Session, TrialFailed


def test_a_script_that_says_nothing_is_waited_for_as_long_as_was_said() -> None:
    session = Session.__new__(Session)
    session._talk, other = socket.socketpair()
    session._left, session._rests = b"", False
    begun = time.monotonic()
    with session._talk, other:
        with pytest.raises(TrialFailed, match="no answer within 1 s"):
            session.answer(0.6)
        assert 0.5 < time.monotonic() - begun < 60
        other.sendall(b'{"life": 1}\n')
        assert session.answer(0.6) == {"life": 1}
        other.sendall(b'{"failed": "why"}\n')
        with pytest.raises(TrialFailed, match="why"):
            session.answer()
