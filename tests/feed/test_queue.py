"""BlockingQueue: bounded, ordered, and it ends."""

from __future__ import annotations

import threading
import time

import pytest

from refluid.core import flags
from refluid.core.errors import EOFException
from refluid.feed import BlockingQueue, NotStarted
from tests.feed.leftovers import PATIENCE, until


def test_order_and_end() -> None:
    queue = BlockingQueue(3)
    ticket = queue.reopen()
    assert [queue.push(item, ticket) for item in "abc"] == [True] * 3
    assert (queue.size(), queue.capacity(), queue.is_closed()) == (3, 3, False)
    queue.close(ticket)
    assert [queue.pop() for _ in range(3)] == ["a", "b", "c"]
    for _ in range(2):
        with pytest.raises(EOFException, match="no next data"):
            queue.pop()
    assert queue.is_closed()
    assert not queue.push("d", ticket)


def test_failure_comes_after_the_items() -> None:
    queue = BlockingQueue(3)
    queue.push(1, queue.reopen())
    queue.fail(lambda: KeyError("broken"))
    assert queue.pop() == 1
    for _ in range(2):
        with pytest.raises(KeyError, match="broken"):
            queue.pop()


def test_nothing_before_the_start() -> None:
    queue = BlockingQueue(1)
    with pytest.raises(NotStarted, match=r"start\(\)"):
        queue.pop()
    with pytest.raises(ValueError, match="is 1 to"):
        BlockingQueue(0)


def test_push_without_ticket_opens() -> None:
    queue = BlockingQueue(2)
    assert queue.push("a")
    assert queue.pop() == "a"


def test_a_full_queue_holds_its_producer() -> None:
    queue = BlockingQueue(2)
    ticket = queue.reopen()
    pushed: list[int] = []

    def produce() -> None:
        for item in range(5):
            if queue.push(item, ticket):
                pushed.append(item)

    thread = threading.Thread(target=produce)
    thread.start()
    until(lambda: pushed == [0, 1])
    time.sleep(0.1)
    assert pushed == [0, 1]
    assert [queue.pop() for _ in range(5)] == list(range(5))
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize("end", ["kill", "reopen"])
def test_a_waiting_producer_is_let_go(end: str) -> None:
    queue = BlockingQueue(1)
    ticket = queue.reopen()
    results: list[bool] = []
    thread = threading.Thread(
        target=lambda: [results.append(queue.push(item, ticket)) for item in range(2)]
    )
    thread.start()
    until(lambda: results == [True])
    time.sleep(0.05)
    getattr(queue, end)()
    thread.join(PATIENCE)
    assert results == [True, False]
    assert queue.size() == 0


def test_speed_test_mode_gives_the_same_item_for_ever() -> None:
    queue = BlockingQueue(2)
    queue.push("a")
    queue.push("b")
    queue.close()
    with flags.override({"FLAGS_reader_queue_speed_test_mode": True}):
        assert [queue.pop() for _ in range(9)] == ["a"] * 9
        assert queue.size() == 2
    assert [queue.pop(), queue.pop()] == ["a", "b"]
