"""Who is gone of a meeting, and who is to blame: the one that failed, not those that left then."""

from __future__ import annotations

import random
import socket
import time
from datetime import timedelta
from typing import Any

import pytest
import torch

from refluid.comm import Communicator
from refluid.comm.roll_call import RollCall, in_time, listening
from refluid.core.errors import PeerFailed
from tests.comm.groups import as_processes, free_address


class Store:
    """What torch's does, in one process. slow: so many seconds for each call."""

    def __init__(self, slow: float = 0.0) -> None:
        self.found: dict[str, str] = {}
        self.slow = slow

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        time.sleep(self.slow)
        if self.found.get(key, "") == expected:
            self.found[key] = desired
        return self.found[key].encode()

    def set(self, key: str, value: str) -> None:
        self.found[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(one in self.found for one in keys)

    def wait(self, keys: list[str], patience: timedelta) -> None:
        until = time.monotonic() + min(patience.total_seconds(), 0.2)
        while not self.check(keys):
            if time.monotonic() > until:
                raise RuntimeError("timed out")
            time.sleep(0.01)


def rolls(size: int, store: Any) -> list[RollCall]:
    listeners = [listening("127.0.0.1") for _ in range(size)]
    addresses = [one.getsockname() for one in listeners]
    return [RollCall(store, rank, one, addresses) for rank, one in enumerate(listeners)]


def test_those_whose_port_is_closed_are_gone() -> None:
    draws = random.Random(3)
    for _ in range(5):
        members = rolls(draws.randint(1, 9), Store())
        left = sorted(draws.sample(range(len(members)), draws.randint(0, len(members))))
        for one in left:
            members[one].leave()
        assert members[0].gone(range(len(members))) == left
        for one in members:
            one.leave()


def test_who_does_not_answer_is_not_gone() -> None:
    with socket.socket() as full:  # takes no connection any more
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        held = [socket.socket() for _ in range(4)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        listener = listening("127.0.0.1")
        roll = RollCall(Store(), 0, listener, [listener.getsockname(), full.getsockname()])
        begun = time.monotonic()
        assert roll.gone([0, 1]) == []
        assert time.monotonic() - begun < 3
        for one in [*held, listener]:
            one.close()


def test_all_say_what_was_found_first() -> None:
    members = one, two, late = [*rolls(2, Store()), *rolls(1, Store(slow=60))]
    assert two.first("it was 7, perhaps", sure=False) == "it was 7, perhaps"  # nobody knows better
    assert one.first("it was 2", sure=True) == "it was 2"
    assert two.first("it was 0", sure=True) == "it was 2. So trainer 0 found"
    assert two.first("it was 0, perhaps", sure=False) == "it was 2. So trainer 0 found"
    assert one.first("it was 1", sure=True) == "it was 2"
    begun = time.monotonic()
    assert late.first("the store's host", sure=True) == "the store's host"
    assert time.monotonic() - begun < 10
    for member in members:
        member.leave()


def test_those_that_hang_are_the_silent_ones() -> None:
    members = rolls(4, Store())
    assert members[0].silent([1, 2, 3]) == [1, 2, 3]
    for one in (0, 2):
        members[one].speak()
    assert members[0].silent([1, 2, 3]) == [1, 3]
    assert members[2].silent([0, 1]) == [1]
    assert members[2].silent([0]) == [0]  # whoever it is, it isn't known better
    for member in members:
        member.leave()


def test_calls_that_take_too_long_are_left() -> None:
    assert in_time(lambda: 3, 5, "test") == 3
    assert isinstance(in_time(lambda: time.sleep(2), 0.01, "test"), TimeoutError)
    assert isinstance(in_time(lambda: [][1], 5, "test"), IndexError)


@pytest.mark.parametrize("turn", range(4))
def test_the_one_that_left_is_named_by_all(turn: int) -> None:
    draws = random.Random(turn)
    size = draws.randint(3, 5)
    leaver, steps = draws.randrange(1, size), draws.randint(0, 3)
    address = free_address()

    def work(comm: Communicator) -> None:
        for step in range(9):
            if comm.rank == leaver and step == steps:
                return
            comm.all_reduce([torch.ones(1000)])

    found = as_processes(size, work, address=address)
    for rank, error in enumerate(found):
        if rank != leaver:
            assert isinstance(error, PeerFailed), found
            assert str(error).startswith(f"trainer {leaver} of {size} went away (to reduce"), found
