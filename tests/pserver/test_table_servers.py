"""Tables behind sockets: pushes counted once whatever is lost, rows by any server alike."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.pserver.layout import TrainingMode
from refluid.pserver.messages import Kind, Remedy, TableMessage
from refluid.pserver.push_messages import WANTED
from refluid.pserver.table_client import TableClient
from tests.pserver.tables import Cluster, at_once, cluster, divided

MOST = 2**63 - 1


def rows_of(ids: list[int], value: float = 1.0) -> SelectedRows:
    return SelectedRows(ids, 1000, torch.full((len(ids), 4), value))


def test_ones_are_subtracted_once() -> None:
    with cluster(divided(servers=2)) as found:
        client = found.client()
        for _ in range(3):
            client.push({"emb@GRAD": rows_of([1, MOST, 1]), "w@GRAD": torch.ones(3, 1)})
        ids = torch.tensor([[1], [MOST], [5]])
        assert client.rows("emb", ids)[:, 0, 0].tolist() == [-6.0, -3.0, 0.0]
        assert client.pull()["w"].flatten().tolist() == [-3.0] * 3
        client.leave()
        assert all(server.over for server in found.servers)


def test_slices_are_spread_over_servers() -> None:
    parts = divided(servers=2)
    (w,) = parts.layout.dense
    assert [(one.begin, one.end, one.server) for one in w.slices] == [(0, 2, 0), (2, 3, 1)]
    with cluster(parts) as found:
        client = found.client()
        client.push({"w@GRAD": torch.tensor([[1.0], [2.0], [3.0]])})
        assert client.pull()["w"].flatten().tolist() == [-1.0, -2.0, -3.0]
        names = [server.tables.dense.names for server in found.servers]
        assert names == [("w.block0",), ("w.block1",)]


def test_rows_begin_alike_whichever_server_has_them() -> None:
    normal = fluid.initializer.Normal(0.0, 0.1)
    ids = torch.arange(50) * 12345678901
    found = []
    for servers in (1, 3):
        with cluster(divided(servers=servers, initializer=normal)) as one:
            found.append(one.client().rows("emb", ids if servers == 1 else ids.flip(0)))
    assert torch.equal(found[0], found[1].flip(0))
    assert found[0].std() > 0.05


class Lossy:
    """A server's answer that is lost after every other call was done."""

    def __init__(self, found: Cluster) -> None:
        self.calls = 0
        for server in found.servers:
            self._wrap(server)

    def _wrap(self, server: object) -> None:
        answer = server.packed_answer  # type: ignore[attr-defined]

        def lose(message: TableMessage, pack: Any) -> Any:
            done = answer(message, pack)
            self.calls += 1
            if message.kind == Kind.PUSH and self.calls % 2:
                raise LookupError("the answer is lost")
            return done

        server.packed_answer = lose  # type: ignore[attr-defined]


def test_a_push_whose_answer_is_lost_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from refluid.pserver import refusals

    meanings = [(LookupError, Remedy.AGAIN), *refusals._MEANINGS]
    monkeypatch.setattr(refusals, "_MEANINGS", meanings)
    with cluster(divided(servers=2)) as found:
        lossy = Lossy(found)
        client = found.client()
        for _ in range(5):
            client.push({"emb@GRAD": rows_of([1, 2, 3]), "w@GRAD": torch.ones(3, 1)})
        assert client.rows("emb", torch.tensor([1, 2, 3])).unique().tolist() == [-5.0]
        assert client.pull()["w"].unique().tolist() == [-5.0]
        assert lossy.calls > 10


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    with cluster(divided()) as found:
        client = found.client()
        client.push({"w@GRAD": torch.ones(3, 1)})
        address = found.services[0].address
        found.services[0].stop(0.0)
        pushed = threading.Thread(target=lambda: client.push({"w@GRAD": torch.ones(3, 1)}))
        pushed.start()
        found.services[0] = found.listening(found.servers[0], address)
        pushed.join(30)
        assert client.pull()["w"].unique().tolist() == [-2.0]


def test_a_server_that_is_gone_is_named() -> None:
    with cluster(divided()) as found:
        client = found.client(patience=0.3)
        found.services[0].stop(0.0)
        with pytest.raises(EnforceNotMet, match=r"server 127\.0\.0\.1:\d+ didn't answer"):
            client.push({"w@GRAD": torch.ones(3, 1)})


def test_another_job_is_refused() -> None:
    with cluster(divided()) as found:
        stranger = divided(width=5)
        client = TableClient(stranger.layout, 0)
        client.servers.close()
        client.servers = found.client().servers
        with pytest.raises(EnforceNotMet, match="of another job"):
            client.enter()


def test_what_does_not_fit_changes_nothing() -> None:
    with cluster(divided()) as found:
        client = found.client()
        wrong = SelectedRows([1], 1000, torch.ones(1, 5))
        with pytest.raises(EnforceNotMet, match="table emb has rows of 4"):
            client.push({"w@GRAD": torch.ones(3, 1), "emb@GRAD": wrong})
        assert client.pull()["w"].unique().tolist() == [0.0]


def test_rows_are_made_only_where_all_tables_are_there() -> None:
    with cluster(divided()) as found:
        client = found.client()
        wanted = [(f"{WANTED}{name}", np.array([3, 4])) for name in ("emb", "other")]
        with pytest.raises(EnforceNotMet, match="no table 'other'"):
            client.ask_all(Kind.PULL, arrays=wanted)
        assert found.servers[0].tables.sparse["emb"].rows == 0


# -- synchronous training -----------------------------------------------------


def test_the_mean_of_all_trainers_is_one_update() -> None:
    with cluster(divided(trainers=2, servers=2, mode=TrainingMode.SYNC)) as found:
        one, other = found.client(0), found.client(1)

        def train(client: TableClient, slope: float, ids: list[int]) -> list[float]:
            seen = []
            for _ in range(3):
                grads = {
                    "w@GRAD": torch.full((3, 1), slope),
                    "emb@GRAD": rows_of(ids, slope),
                }
                seen.append(float(client.push(grads, wants=True)["w"][2, 0]))
            return seen

        both = at_once(lambda: train(one, 1.0, [1, 2]), lambda: train(other, 10.0, [2, 3]))
        assert both[0] == both[1] == [-5.5, -11.0, -16.5]
        rows = one.rows("emb", torch.tensor([1, 2, 3]))
        assert rows[:, 0].tolist() == [-1.5, -16.5, -15.0]


def test_a_trainer_that_leaves_is_out_of_the_mean() -> None:
    with cluster(divided(trainers=2, mode=TrainingMode.SYNC)) as found:
        one, other = found.client(0), found.client(1)
        push = {"w@GRAD": torch.ones(3, 1)}
        at_once(lambda: one.push(push), lambda: other.push(push))
        other.leave()
        fresh = one.push({"w@GRAD": torch.full((3, 1), 4.0)}, wants=True)
        assert fresh["w"].unique().tolist() == [-5.0]


def test_a_trainer_whose_lease_ended_is_not_waited_for() -> None:
    with cluster(divided(trainers=2, mode=TrainingMode.SYNC)) as found:
        server, time = found.servers[0], [0.0]
        server.members._clock = lambda: time[0]
        server.hold = 0.05
        one, _ = found.client(0), found.client(1)
        pushed = threading.Thread(target=lambda: one.push({"w@GRAD": torch.ones(3, 1)}))
        pushed.start()
        while not server.applying.holds(0):
            pass
        assert pushed.is_alive()
        time[0] = server.members.lease + 1.0
        server.members.known[0].seen = time[0]
        server.tick()
        pushed.join(30)
        assert not pushed.is_alive()
        assert server.state()["trainers"] == [0]
        assert one.pull()["w"].unique().tolist() == [-1.0]


def test_a_trainer_that_begins_anew_does_not_stop_the_round() -> None:
    with cluster(divided(trainers=2, mode=TrainingMode.SYNC)) as found:
        server = found.servers[0]
        server.hold = 0.05
        first, other = found.client(0), found.client(1)

        def lose() -> None:
            with suppress(EnforceNotMet):  # or it is answered as the other one is
                first.push({"w@GRAD": torch.ones(3, 1)})

        lost = threading.Thread(target=lose, daemon=True)
        lost.start()
        while not server.applying.holds(0):
            pass
        again = found.client(0)
        grads = {"w@GRAD": torch.full((3, 1), 3.0)}
        at_once(lambda: again.push(grads), lambda: other.push(grads))
        assert other.pull()["w"].unique().tolist() == [-3.0]
        lost.join(20)
        assert not lost.is_alive()
        with pytest.raises(EnforceNotMet, match="another process is trainer 0 now"):
            first.enter()


def test_a_server_waits_for_trainers_that_did_not_leave() -> None:
    """A link that is down for longer than a lease doesn't end the server behind it."""
    with cluster(divided(trainers=2)) as found:
        server, time = found.servers[0], [0.0]
        server.members._clock = lambda: time[0]
        clients = [found.client(number) for number in range(2)]
        time[0] = server.members.lease + 1.0
        server.tick()
        assert server.state()["trainers"] == [] and not server.over
        clients[0].push({"w@GRAD": torch.ones(3, 1)})
        assert server.state()["trainers"] == [0]
        clients[0].leave()
        assert not server.over
        time[0] = server.members.patience + 1.0
        assert server.over and server.members.patience > 100


def test_a_call_that_comes_after_its_trainers_end_brings_nobody_back() -> None:
    """As a heartbeat, or a pull of another thread, that waited for the lock."""
    with cluster(divided()) as found:
        server, client = found.servers[0], found.client()
        late = client.message(Kind.PULL, client.layout)
        client.leave()
        assert server.over
        server.answer(late)
        assert server.over
        client = found.client()
        assert not server.over
        client.leave()
        assert server.over


def test_servers_in_another_order_are_refused() -> None:
    """Else rows would be looked for where they aren't."""
    with cluster(divided(servers=2)) as found:
        found.services.reverse()
        with pytest.raises(EnforceNotMet, match=r"this is server (1, not 0|0, not 1)"):
            found.client()
        assert not any(server.members.known for server in found.servers)


def test_rows_are_found_wherever_their_servers_are() -> None:
    one, other = divided(servers=2).layout, divided(servers=2).layout
    moved = replace(other, servers=("10.0.0.1:80", "10.0.0.2:80"))
    assert moved.job == one.job and torch.equal(moved.owners, one.owners)
    assert replace(other, servers=("10.0.0.1:80",)).job != one.job
