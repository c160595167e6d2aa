"""Calls of the same host through memory of both ends: the same answers, whatever lies in it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.core.selected_rows import SelectedRows
from refluid.pserver import near_memory
from refluid.pserver.layout import TrainingMode
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage
from refluid.pserver.near_memory import NearMemory, greeted
from refluid.pserver.packing import HEAD_BYTES, MAGIC, encode
from refluid.pserver.wire import NEAR, MessageSocket
from tests.pserver.tables import at_once, cluster, divided

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory files of Linux's own")


@pytest.fixture(autouse=True)
def near() -> Iterator[None]:
    with flags.override({"FLAGS_refluid_near_sockets": True}):
        yield


@contextmanager
def memory_off() -> Iterator[None]:
    fluid.set_flags({"FLAGS_refluid_near_memory": False})
    try:
        yield
    finally:
        fluid.set_flags({"FLAGS_refluid_near_memory": True})


@contextmanager
def ends() -> Iterator[tuple[socket.socket, NearMemory, MessageSocket]]:
    """The caller's socket and memory, and the server's end."""
    caller, served = socket.socketpair(socket.AF_UNIX)
    with caller, served:
        server = MessageSocket.accepted(served, "127.0.0.1:1", None, 5.0)
        memory = greeted(caller)
        assert memory is not None
        yield caller, memory, server


def put(memory: NearMemory, raw: bytes) -> None:
    """Writes where the other end reads."""
    room = memory.room(len(raw))
    assert room is not None
    room[:] = np.frombuffer(raw, np.uint8)


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


# -- equal to sockets ---------------------------------------------------------


def exchanged(seed: int) -> list[torch.Tensor]:
    """Rows and parameters after pushes, pulls and both in one, of any sizes, by two trainers."""
    random, found = np.random.RandomState(seed), []
    parts = divided(int(random.choice([1, 2, 3])), trainers=2, width=int(random.choice([1, 7, 64])))
    width = parts.layout.sparse[0].width
    with cluster(parts) as made:
        clients = [made.client(number) for number in range(2)]
        for _ in range(12):
            client = clients[random.randint(2)]
            count = int(random.choice([0, 1, 5, 300, 9_000]))
            ids = torch.from_numpy(random.randint(0, 2000, count))
            value = torch.from_numpy(random.rand(count, width).astype("f4"))
            given: dict[str, Any] = {"emb@GRAD": SelectedRows(ids, 1000, value)}
            if random.rand() < 0.5:
                given["w@GRAD"] = torch.from_numpy(random.rand(3, 1).astype("f4"))
            how = random.randint(3)
            if how == 0:
                found += client.push(given, wants=True).values()
            elif how == 1:
                dense, rows = client.push_and_pull(given, {"emb": ids.flip(0)})
                found += [*dense.values(), rows["emb"].of(ids.flip(0))]
            found.append(client.rows("emb", ids[: max(1, count // 2)]))
        for client in clients:
            client.leave()
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("half", [2**25, 20_000])
def test_answers_are_those_of_sockets(
    seed: int, half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where some messages are too long for the memory."""
    monkeypatch.setattr(near_memory, "HALF", half)
    shared = exchanged(seed)
    with memory_off():
        alone = exchanged(seed)
    assert all(torch.equal(one, other) for one, other in zip(shared, alone, strict=True))


def uses_memory() -> set[bool]:
    """Whether a client's connections have memory."""
    with cluster(divided(2)) as made:
        client = made.client()
        client.state()
        idle = [one for part in client.servers._idle.values() for one in part]
        client.leave()
    return {one._memory is not None for one in idle}


def test_a_flag_says_whether_there_is_memory() -> None:
    assert uses_memory() == {True}
    with memory_off():
        assert uses_memory() == {False}


def test_a_caller_that_takes_no_memory_is_answered_without() -> None:
    raw = encode(TableMessage(Kind.BEAT))
    with ends() as (caller, memory, server):
        for head, wanted in ((raw, MAGIC), (NEAR + raw[len(NEAR) :], NEAR)):
            caller.sendall(head[:HEAD_BYTES])
            server.receive(soon())
            server.send(TableMessage(Kind.ANSWER, arrays=[("a", np.arange(3))]), soon())
            told = caller.recv(4096)
            assert told.startswith(wanted)
            assert (len(told) == HEAD_BYTES) == (wanted == NEAR)
        assert memory.read(8, copied=True).tolist()


@pytest.mark.parametrize("servers", [1, 2])
def test_rows_that_are_kept_stay_as_they_were(servers: int) -> None:
    """Though later answers lie where theirs lay, and several threads call at once."""
    with cluster(divided(servers)) as made:
        client = made.client()
        batches = [torch.arange(start, start + 500) for start in range(0, 4000, 500)]
        for number, ids in enumerate(batches):
            value = torch.full((500, 4), -float(number))
            client.push({"emb@GRAD": SelectedRows(ids, 1000, value)})
        for _ in range(20):
            kept = at_once(
                *[lambda ids=ids: client.known_rows({"emb": ids})["emb"] for ids in batches]
            )
            for number, (known, ids) in enumerate(zip(kept, batches, strict=True)):
                assert (known.of(ids) == number).all()
        client.leave()


def test_pushes_that_wait_for_others_stay_as_they_were() -> None:
    """Though their trainer asks again meanwhile, by messages that lie where theirs lay."""
    with cluster(divided(trainers=2, mode=TrainingMode.SYNC)) as made:
        made.servers[0].hold = 0.01
        clients, ids, following = (
            [made.client(0), made.client(1)],
            torch.arange(500),
            torch.arange(5000),
        )

        def pushed(number: int) -> torch.Tensor:
            time.sleep(0.3 * number)
            value = torch.full((500, 4), 1.0 + 2.0 * number)
            given = {"emb@GRAD": SelectedRows(ids, 1000, value)}
            _, rows = clients[number].push_and_pull(given, {"emb": following})
            return rows["emb"].of(following)

        for rows in at_once(lambda: pushed(0), lambda: pushed(1)):
            assert rows[:500].unique().tolist() == [-2.0]
            assert rows[500:].unique().tolist() == [0.0]
        for client in clients:
            client.leave()


# -- nothing in it is trusted -------------------------------------------------


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
