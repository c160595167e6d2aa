"""Replicas get the same items of a reader, however their threads run."""

from __future__ import annotations

import threading
import time

import pytest

from refluid.core.errors import EOFException
from refluid.feed import QueueReader
from refluid.feed.portions import Turn
from tests.feed.leftovers import PATIENCE


@pytest.mark.parametrize("size", [1, 2, 3])
def test_items_are_dealt_in_turn(size: int) -> None:
    reader = QueueReader("dealt", 4)
    for _ in range(2):
        reader.start(lambda: iter(range(20)))
        found: dict[int, list[int]] = {rank: [] for rank in range(size)}

        def take(rank: int, found: dict[int, list[int]] = found) -> None:
            try:
                while True:
                    found[rank].append(reader.next(Turn(rank, size)))
                    time.sleep(0.001 * rank)
            except EOFException:
                pass

        threads = [threading.Thread(target=take, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        for rank in range(size):
            assert found[rank] == list(range(rank, 20, size))
    reader.reset()
