"""Processes that meet over TCP; here they are threads of one."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

import pytest

from refluid.comm import Communicator
from refluid.comm.processes import Processes, meet
from refluid.comm.values import gather_values
from refluid.core.errors import PeerFailed
from tests.comm.groups import as_processes, free_address, together


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_everyone_hears_everyone_again_and_again(size: int) -> None:
    address = free_address()
    for turn in range(3):

        def work(comm: Communicator) -> list[Any]:
            return gather_values(comm, [turn, comm.rank, "é" * comm.rank])  # noqa: B023

        found = as_processes(size, work, address=address)
        assert found == [[[turn, rank, "é" * rank] for rank in range(size)]] * size


def test_a_member_that_leaves_is_an_error_for_those_who_wait() -> None:
    def work(comm: Communicator) -> Any:
        return gather_values(comm, 1) if comm.rank else None

    none, *others = as_processes(3, work)
    assert none is None
    for error in others:
        assert isinstance(error, PeerFailed)
        # The other one may be seen to go as well, because it had the same error first.
        assert re.match(r"trainers? 0(, [12])? of 3 went away", str(error)), str(error)


def test_a_member_that_does_nothing_is_an_error_after_a_while() -> None:
    address, done = free_address(), threading.Event()

    def idle() -> None:
        comm = meet(1, 2, address, wait=60)
        done.wait(60)
        comm.close()

    def waits() -> None:
        comm = meet(0, 2, address, wait=60, patience=0.5)
        try:
            comm.barrier()
        finally:
            done.set()
            comm.close()

    error, _ = together([waits, idle])
    assert isinstance(error, PeerFailed) and "trainer 1 of 2" in str(error)
    assert "did nothing for too long" in str(error)


def test_those_that_do_not_come_are_named() -> None:
    address = free_address()
    found = together(
        [lambda: meet(0, 4, address, wait=5), lambda: meet(2, 4, address, wait=60)],
    )
    assert str(found[0]) == f"trainer 1, 3 of 4 did not come to 127.0.0.1:{address[1]}"
    assert isinstance(found[1], PeerFailed)
    with pytest.raises(PeerFailed, match=r"could not meet the others at 127\.0\.0\.1"):
        meet(1, 2, address, wait=0.3)


def test_two_of_one_number_are_an_error() -> None:
    address = free_address()
    works = [lambda rank=rank: meet(rank, 3, address, wait=10) for rank in (0, 1, 1)]  # type: ignore[misc]
    for error in together(works):
        assert isinstance(error, PeerFailed) and "numbers must differ" in str(error)


def test_groups_of_different_size_are_an_error() -> None:
    address = free_address()
    works = [lambda n=n: meet(n, 2 + n, address, wait=10) for n in (0, 1)]  # type: ignore[misc]
    for error in together(works):
        assert isinstance(error, PeerFailed) and "trainer 1 of 3" in str(error)


def test_an_address_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PeerFailed, match=r"trainer 0 can.t listen at 127\.0\.0\.1:"):
            meet(0, 2, taken.getsockname(), wait=1)


def test_strangers_are_not_listened_to() -> None:
    address = free_address()

    def stranger() -> None:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x02" + bytes(7) + b"{}", b""):
            for _ in range(100):
                try:
                    with socket.create_connection(address, 1) as link:
                        link.sendall(data)
                    break
                except OSError:
                    time.sleep(0.01)

    def late() -> Any:
        time.sleep(0.5)
        return meet(1, 2, address, wait=60)

    ours, theirs, _ = together([lambda: meet(0, 2, address, wait=60), late, stranger])
    for comm in (ours, theirs):
        assert isinstance(comm, Processes)
        comm.close()
