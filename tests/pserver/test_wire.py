"""Messages on connections: whole, in pieces, too large, half, late; and servers that end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.pserver.addresses import host_and_port
from refluid.pserver.calling import Servers, ServerUnreachable
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage
from refluid.pserver.packing import HEAD_BYTES, encode
from refluid.pserver.service import Service
from refluid.pserver.waiting import as_they_come
from refluid.pserver.wire import ConnectionEnded, MessageSocket
from tests.pserver.tables import cluster, divided


@contextmanager
def pair() -> Iterator[tuple[MessageSocket, socket.socket]]:
    """A connection, and the other end as it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        connection = MessageSocket.to(address, None, soon())
        other, _ = listener.accept()
        with other:
            yield connection, other
        connection.close()


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def test_messages_of_all_sizes_arrive() -> None:
    draws = np.random.RandomState(0)
    with pair() as (connection, other):
        back = MessageSocket(other)
        for _ in range(60):
            sizes = draws.choice([0, 1, 7, 8, 1000, 300_000], draws.randint(0, 600 // 100))
            arrays = [(f"a{i}", draws.bytes(size)) for i, size in enumerate(sizes)]
            sent = [(name, np.frombuffer(raw, np.uint8)) for name, raw in arrays]
            message = TableMessage(Kind.PUSH, 1, 2, 3, 4, 5, sent)
            sender = threading.Thread(target=connection.send, args=(message, soon()))
            sender.start()
            got = back.receive(soon())
            sender.join()
            assert [(name, one.tobytes()) for name, one in got.arrays] == arrays
            assert all(one.flags.writeable for _, one in got.arrays)


def test_more_arrays_than_the_kernel_takes_at_once() -> None:
    arrays = [(f"a{i}", np.full(3, i, "i4")) for i in range(5000)]
    with pair() as (connection, other):
        sender = threading.Thread(
            target=connection.send, args=(TableMessage(Kind.PUSH, arrays=arrays), soon())
        )
        sender.start()
        got = MessageSocket(other).receive(soon())
        sender.join()
    assert [one.tolist() for _, one in got.arrays] == [[i] * 3 for i in range(5000)]


def test_a_message_in_small_pieces_is_one() -> None:
    raw = encode(TableMessage(Kind.PUSH, arrays=[("a", np.arange(9.0))]))
    with pair() as (connection, other):

        def trickle() -> None:
            for start in range(0, len(raw), 13):
                other.sendall(raw[start : start + 13])

        sender = threading.Thread(target=trickle)
        sender.start()
        assert connection.receive(soon()).array("a").tolist() == list(range(9))
        sender.join()


@pytest.mark.parametrize(
    ("raw", "error", "told"),
    [
        (b"", ConnectionEnded, "was closed"),
        (encode(TableMessage(Kind.BEAT))[:20], ConnectionError, "within a message"),
        (b"GET / HTTP/1.1\r\n" + bytes(60), MalformedMessage, "begins with"),
        (
            encode(TableMessage(Kind.BEAT))[: HEAD_BYTES - 8] + struct.pack("<Q", 2**40),
            MalformedMessage,
            "1099511627776 bytes, of at most",
        ),
        (
            encode(TableMessage(Kind.BEAT))[: HEAD_BYTES - 8] + struct.pack("<Q", 3),
            MalformedMessage,
            "3 bytes",
        ),
    ],
)
def test_what_is_no_message(raw: bytes, error: Any, told: str) -> None:
    with pair() as (connection, other):
        other.sendall(raw)
        other.shutdown(socket.SHUT_WR)
        with pytest.raises(error, match=told):
            connection.receive(soon())


def test_nobody_waits_longer_than_said() -> None:
    with pair() as (connection, other):
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            connection.receive(soon(0.1))
        other.sendall(b"RFPS")
        with pytest.raises(TimeoutError):
            connection.receive(soon(0.1))
        large = TableMessage(Kind.PUSH, arrays=[("a", np.zeros(2**26, "u1"))])
        with pytest.raises(TimeoutError):
            connection.send(large, soon(0.1))
        assert time.monotonic() - start < 5.0


def test_addresses() -> None:
    assert host_and_port("[::1]:80") == ("::1", 80)
    assert host_and_port("a.b:0") == ("a.b", 0)
    for text in ("a", "a:", "a:b", "a:70000"):
        with pytest.raises(EnforceNotMet, match="is no host:port"):
            host_and_port(text)


# -- a server -----------------------------------------------------------------


def test_strangers_bytes_end_a_connection_and_nothing_else() -> None:
    with cluster(divided()) as found:
        client = found.client()
        for raw in (b"\0" * 200, b"RFPS", encode(TableMessage(Kind.BEAT))[:-3]):
            with socket.create_connection(("127.0.0.1", found.services[0].port)) as stranger:
                stranger.sendall(raw)
                with suppress(OSError):  # the server may have ended it by now
                    stranger.shutdown(socket.SHUT_WR)
                    while stranger.recv(4096):
                        pass
        assert client.rows("emb", torch.tensor([5])).tolist() == [[0.0] * 4]


def test_a_full_server_takes_nobody_more_and_goes_on() -> None:
    with cluster(divided(), most=3) as found:
        client = found.client()
        port = found.services[0].port
        others = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
        ended = [one for one in others if _is_closed(one)]
        assert len(ended) >= 4
        assert client.rows("emb", torch.tensor([5])).tolist() == [[0.0] * 4]
        for one in others:
            one.close()


def _is_closed(one: socket.socket) -> bool:
    one.settimeout(0.3)
    try:
        return not one.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_taken_port_is_told() -> None:
    told = r"can't listen at 127\.0\.0\.1:\d+"
    with cluster(divided()) as found, pytest.raises(EnforceNotMet, match=told):
        Service(found.servers[0], found.services[0].address)


def test_an_answer_under_way_leaves_a_server_that_stops() -> None:
    with cluster(divided()) as found:
        client, server = found.client(), found.servers[0]
        begun, go = threading.Event(), threading.Event()
        answer = server.packed_answer

        def slowly(message: TableMessage, pack: Any) -> Any:
            begun.set()
            go.wait(60.0)
            return answer(message, pack)

        server.packed_answer = slowly  # type: ignore[method-assign]
        pushed = threading.Thread(target=client.push, args=({"w@GRAD": torch.ones(3, 1)},))
        pushed.start()
        assert begun.wait(60.0)
        stopped = threading.Thread(target=found.services[0].stop, args=(60.0,))
        stopped.start()
        go.set()
        for thread in (pushed, stopped):
            thread.join(60.0)
            assert not thread.is_alive()
        assert server.pushes == 1


def test_one_server_that_is_silent_takes_no_time_of_others() -> None:
    with cluster(divided()) as found, socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [f"127.0.0.1:{silent.getsockname()[1]}", found.services[0].address]
        servers = Servers(addresses, patience=0.4, one_try=0.2)
        hello = TableMessage(Kind.HELLO, 0, 1, job=found.servers[0].job)
        with pytest.raises(ServerUnreachable, match=addresses[0]):
            servers.ask({0: hello, 1: hello})
        assert set(found.servers[0].members.known) == {0}
        servers.close()
        with pytest.raises(EnforceNotMet, match="are closed"):
            servers.ask({1: hello})


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_taken_as_they_come(seed: int) -> None:
    order = np.random.RandomState(seed).permutation(4).tolist()
    pairs = [socket.socketpair() for _ in order]
    waiting = {number: MessageSocket(own) for number, (own, _) in enumerate(pairs)}
    message = TableMessage(Kind.ANSWER)
    found = []
    for sender in order[:2]:
        pairs[sender][1].sendall(encode(message))
        for key in as_they_come(waiting, soon()):
            waiting.pop(key).receive(soon())
            found.append(key)
            break
    silent = set(as_they_come(waiting, time.monotonic() + 0.05))
    assert found == order[:2] and silent == set(order[2:])
    pairs[order[3]][1].close()
    assert next(as_they_come(waiting, soon())) == order[3]
    for own, other in pairs:
        own.close()
        other.close()
