"""What lies in memory of both ends isn't trusted: a caller writes there whatever it likes."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from refluid.core import flags
from refluid.core.selected_rows import SelectedRows
from refluid.pserver import near_memory
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage
from refluid.pserver.packing import HEAD_BYTES, encode
from refluid.pserver.wire import NEAR, MessageSocket
from tests.pserver.near_ends import ends, put, soon
from tests.pserver.tables import cluster, divided

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory files of Linux's own")


@pytest.fixture(autouse=True)
def near() -> Iterator[None]:
    with flags.override({"FLAGS_refluid_near_sockets": True}):
        yield


def test_what_a_server_checked_does_not_change_afterwards() -> None:
    sent = TableMessage(Kind.ROWS, arrays=[("emb", np.arange(1000))])
    raw = encode(sent)
    with ends() as (caller, memory, server):
        put(memory, raw[HEAD_BYTES:])
        caller.sendall(NEAR + raw[len(NEAR) : HEAD_BYTES])
        got = server.receive(soon())
        put(memory, bytes(len(raw)))
        assert got.array("emb").tolist() == list(range(1000))


def test_only_what_is_borrowed_changes_with_the_memory() -> None:
    arrays = [("ids:emb", np.arange(9)), ("rows:emb", np.ones((9, 4))), ("w@GRAD", np.ones(3))]
    raw = encode(TableMessage(Kind.PUSH, arrays=arrays))
    with ends() as (caller, memory, server):
        put(memory, raw[HEAD_BYTES:])
        caller.sendall(NEAR + raw[len(NEAR) : HEAD_BYTES])
        got = server.receive(soon(), borrows=lambda _, name: name == "rows:emb")
        put(memory, bytes(len(raw)))
        assert [one.sum() for _, one in got.arrays] == [36, 0, 3]


@pytest.mark.parametrize("kind", [Kind.ROWS, Kind.PUSH])
def test_memory_that_changes_all_the_time_breaks_nothing(kind: Kind) -> None:
    """A caller writes whatever it likes while the server reads: refused, or a message."""
    draws = np.random.RandomState(2)
    with cluster(divided()) as made:
        server, client = made.servers[0], made.client()
        client.push({"emb@GRAD": SelectedRows(torch.tensor([7]), 1000, torch.ones(1, 4))})
        before = client.rows("emb", torch.tensor([7]))
        message = TableMessage(kind, 0, client.session, job=server.job, flags=8)
        if kind == Kind.ROWS:
            message.arrays = [("emb", np.arange(5000)), ("emb", np.arange(3))]
        else:
            ids, rows = np.arange(8, 5000), np.zeros((4992, 4), np.float32)
            message.arrays, message.flags = [("ids:emb", ids), ("rows:emb", rows)], 0
        raw, ended = encode(message), threading.Event()
        with ends() as (caller, memory, served):

            def scribble() -> None:
                body = np.frombuffer(raw, np.uint8)[HEAD_BYTES:].copy()
                while not ended.is_set():
                    put(memory, body.tobytes())
                    places = draws.randint(0, 120, 6)
                    memory._written[places] = draws.randint(0, 256, 6)

            thread = threading.Thread(target=scribble)
            thread.start()
            told = {"refused": 0, "answered": 0}
            for sequence in range(2, 1502):
                message.sequence = sequence
                caller.sendall(NEAR + encode(message)[len(NEAR) : HEAD_BYTES])
                try:
                    found = served.receive(soon(), borrows=made.services[0]._borrows)
                    given = [array for name, array in found.arrays if name != "rows:emb"]
                    copies = [array.copy() for array in given]
                    answer = server.answer(found)
                    if kind == Kind.ROWS:
                        assert [len(one) for _, one in answer.arrays] == [len(one) for one in given]
                    assert all(map(np.array_equal, given, copies))
                    told["answered"] += 1
                except Exception as error:
                    assert _is_refusal(error), error
                    told["refused"] += 1
            ended.set()
            thread.join()
        assert min(told.values()) > 20
        assert torch.equal(client.rows("emb", torch.tensor([7])), before)
        client.leave()


def _is_refusal(error: Exception) -> bool:
    from refluid.pserver.refusals import is_refusal

    return is_refusal(error)


@pytest.mark.parametrize("size", [0, HEAD_BYTES - 1, near_memory.HALF + HEAD_BYTES + 1, 2**40])
def test_sizes_that_the_memory_does_not_have_are_refused(size: int) -> None:
    raw = encode(TableMessage(Kind.BEAT))
    with ends() as (caller, _, server):
        caller.sendall(NEAR + raw[len(NEAR) : HEAD_BYTES - 8] + size.to_bytes(8, "little"))
        with pytest.raises(MalformedMessage):
            server.receive(soon())
        assert server.is_lost


def test_nobody_makes_the_memory_smaller() -> None:
    """Who reads what isn't there any more would be killed."""
    caller, served = socket.socketpair(socket.AF_UNIX)
    with caller, served:
        near_memory.greet(served)
        _, (descriptor,), *_ = socket.recv_fds(caller, 1, 1)
        for size in (0, near_memory.HALF, 3 * near_memory.HALF):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        os.close(descriptor)


def test_memory_is_asked_for_where_there_is_none() -> None:
    """As by a stranger by TCP: it is no message."""
    raw = encode(TableMessage(Kind.BEAT))
    caller, served = socket.socketpair(socket.AF_UNIX)
    with caller, served:
        caller.sendall(NEAR + raw[len(NEAR) :])
        with pytest.raises(MalformedMessage, match="begins with b'RFPM'"):
            MessageSocket(served).receive(soon())


@pytest.mark.parametrize("told", [b"", b"X", b"RFPS"])
def test_a_server_that_says_something_else_is_not_believed(told: bytes) -> None:
    caller, served = socket.socketpair(socket.AF_UNIX)
    with caller, served:
        served.sendall(told)
        served.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError, match="as it began"):
            MessageSocket(caller, greets=False).receive(soon())
