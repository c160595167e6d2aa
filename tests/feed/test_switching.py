"""Short turns of threads while a generator runs in one of them, and as before afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from refluid.core.errors import EOFException
from refluid.feed import QueueReader
from refluid.feed.switching import SECONDS, short_turns


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-3)
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_within_the_outermost_block() -> None:
    with short_turns():
        with short_turns():
            assert sys.getswitchinterval() == pytest.approx(SECONDS)
        assert sys.getswitchinterval() == pytest.approx(SECONDS)
    assert sys.getswitchinterval() == pytest.approx(5e-3)


def test_what_the_user_set_stays() -> None:
    sys.setswitchinterval(1e-5)
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(1e-5)
    assert sys.getswitchinterval() == pytest.approx(1e-5)
    with short_turns():
        sys.setswitchinterval(2e-3)
    assert sys.getswitchinterval() == pytest.approx(2e-3)


def test_a_reader_shortens_turns_from_start_to_end() -> None:
    found = []

    def items() -> Iterator[int]:
        found.append(sys.getswitchinterval())
        yield from range(3)

    reader = QueueReader("turns", 2)
    for _ in range(2):
        reader.start(items)
        with pytest.raises(EOFException):
            for _ in range(4):
                reader.next()
        reader.reset()
        assert sys.getswitchinterval() == pytest.approx(5e-3)
    assert found == pytest.approx([SECONDS, SECONDS])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_no_readers() -> None:
    with short_turns():
        child = os.fork()
        if not child:
            with short_turns():
                pass
            os._exit(0 if sys.getswitchinterval() > 4e-3 else 1)
        assert os.waitpid(child, 0)[1] == 0
