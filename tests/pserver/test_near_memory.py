"""Calls of the same host through memory of both ends: the same answers, whatever lies in it."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.core.selected_rows import SelectedRows
from refluid.pserver import calling, near_memory
from refluid.pserver.calling import Servers
from refluid.pserver.layout import TrainingMode
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.packing import HEAD_BYTES, MAGIC, encode
from refluid.pserver.wire import NEAR
from tests.pserver.near_ends import ends, soon
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
        clients, ids = [made.client(0), made.client(1)], torch.arange(5000)

        def pushed(number: int) -> torch.Tensor:
            time.sleep(0.3 * number)
            value = torch.full((500, 4), 1.0 + 2.0 * number)
            given = {"emb@GRAD": SelectedRows(ids[:500], 1000, value)}
            return clients[number].push_and_pull(given, {"emb": ids})[1]["emb"].of(ids)

        for rows in at_once(lambda: pushed(0), lambda: pushed(1)):
            assert rows[:500].unique().tolist() == [-2.0]
            assert rows[500:].unique().tolist() == [0.0]
        for client in clients:
            client.leave()


# -- processors ---------------------------------------------------------------


def waits_of(thread: int) -> int:
    """How often a thread of this process has gone to sleep so far."""
    told = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(told.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_who_waits_for_a_call_sleeps_while_the_last_answer_is_read() -> None:
    """Of several times once, at least: it may not have waited yet, where others compute."""
    threads, woken = list[int](), list[int]()
    with ends() as (caller, _, server):

        def serve() -> None:
            threads.append(threading.get_native_id())
            with suppress(OSError):
                while True:
                    server.receive(None)
                    server.send(TableMessage(Kind.ANSWER), soon())

        thread = threading.Thread(target=serve)
        thread.start()
        while 0 not in woken and len(woken) < 50:
            caller.sendall(encode(TableMessage(Kind.BEAT)))
            assert select.select([caller], [], [], 30.0)[0]
            time.sleep(0.02)
            before = waits_of(threads[0])
            assert caller.recv(4096).startswith(MAGIC)
            time.sleep(0.02)
            woken.append(waits_of(threads[0]) - before)
        caller.close()
        thread.join()
    assert 0 in woken


def test_each_end_knows_the_core_of_the_other() -> None:
    allowed = os.sched_getaffinity(0)
    with cluster(divided(1)) as made:
        client = made.client()
        client.state()  # by memory; how a connection begins is told by its socket
        (connection,) = (one for part in client.servers._idle.values() for one in part)
        memory = connection._memory
        assert memory is not None and connection.core in allowed
        assert memory._own_core[0] - 1 in allowed
        client.leave()


@pytest.mark.parametrize("seed", range(5))
def test_servers_that_answer_on_this_core_are_called_after_the_others(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one kind by who comes last; whom nobody knows yet are on other cores."""
    random = np.random.RandomState(seed)
    servers = Servers([f"127.0.0.1:{port}" for port in range(9000, 9008)])
    monkeypatch.setattr(calling, "own_core", lambda: 1)
    servers._answered = {n: (int(random.randint(-1, 3)), int(random.randint(8))) for n in range(6)}
    order = [
        server for server, _ in servers._in_order({n: TableMessage(Kind.BEAT) for n in range(8)})
    ]
    known = [servers._answered.get(server, (-1, 0)) for server in order]
    waits = [core == 1 for core, _ in known]
    assert waits == sorted(waits) and sorted(order) == list(range(8))
    for kind in (True, False):
        places = [place for core, place in known if (core == 1) is kind]
        assert places == sorted(places, reverse=True)
