"""Processes that meet over TCP; here they are threads of one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from refluid.comm.peers import Address, Peers, meet
from refluid.core.errors import PeerFailed


def free_address() -> Address:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", int(probe.getsockname()[1])


def together(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returned or raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        return [one.exception(300) or one.result() for one in futures]


def as_group(size: int, work: Callable[[Peers], Any], address: Address | None = None) -> list[Any]:
    """`work` of each of `size` members."""
    where = free_address() if address is None else address

    def member(rank: int) -> Any:
        peers = meet(rank, size, where, wait=60, patience=20)
        try:
            return work(peers)
        finally:
            peers.close()

    return together([lambda rank=rank: member(rank) for rank in range(size)])  # type: ignore[misc]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_everyone_hears_everyone_again_and_again(size: int) -> None:
    address = free_address()
    for turn in range(3):
        found = as_group(size, lambda peers: peers.all_gather([turn, peers.rank]), address)  # noqa: B023
        assert found == [[[turn, rank] for rank in range(size)]] * size


def test_messages_keep_their_order_and_bounds() -> None:
    large = bytes(range(256)) * 20_000

    def work(peers: Peers) -> list[bytes]:
        other = peers.others[0]
        sender = threading.Thread(
            target=lambda: [peers.send(other, part) for part in ([large], [b"a", b"", b"b"], [])]
        )
        sender.start()
        found = [bytes(peers.receive(other)) for _ in range(3)]
        sender.join()
        return found

    assert as_group(2, work) == [[large, b"ab", b""]] * 2


def test_a_member_that_leaves_is_an_error_for_those_who_wait() -> None:
    def work(peers: Peers) -> Any:
        return peers.all_gather(1) if peers.rank else None

    none, *others = as_group(3, work)
    assert none is None
    for error in others:
        assert isinstance(error, PeerFailed) and "of 3 (127.0.0.1:" in str(error)
        assert "went away" in str(error)


def test_a_member_that_does_nothing_is_an_error_after_a_while() -> None:
    address, done = free_address(), threading.Event()

    def idle() -> None:
        peers = meet(1, 2, address, wait=60)
        done.wait(60)
        peers.close()

    def waits() -> None:
        peers = meet(0, 2, address, wait=60, patience=0.3)
        try:
            peers.receive(1)
        finally:
            done.set()
            peers.close()

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
    assert "numbers must differ" in str(together(works)[0])
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
    for peers in (ours, theirs):
        assert isinstance(peers, Peers)
        peers.close()
