"""What calls of a step's rows send when: the first server isn't kept waiting, and asked again."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.dealing import DealtIds
from refluid.kernels.rows.ids import id_loops
from refluid.pserver import calling, table_client
from refluid.pserver.calling import Servers
from refluid.pserver.layout import TrainingMode
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.wire import MessageSocket
from tests.pserver.jobs import Built, Job, Trainer
from tests.pserver.tables import cluster, divided
from tests.pserver.test_table_servers import rows_of


@pytest.mark.parametrize("ahead", [False, True], ids=["rows", "rows-with-a-push"])
def test_ids_of_the_first_server_leave_before_others_are_looked_at(
    ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    loops, send = id_loops(), MessageSocket.send
    unique = loops.unique_part
    monkeypatch.setattr(
        loops, "unique_part", lambda *given: [done.append("ids"), unique(*given)][1]
    )

    def sent(connection: MessageSocket, message: TableMessage, until: float) -> None:
        send(connection, message, until)
        if message.kind in (Kind.ROWS, Kind.PUSH):  # servers send answers
            done.append("sent")

    monkeypatch.setattr(MessageSocket, "send", sent)
    with cluster(divided(servers=3)) as found:
        client, ids = found.client(), torch.arange(60)
        if ahead:
            rows = client.push_and_pull({"w@GRAD": torch.ones(3, 1)}, {"emb": ids})[1]["emb"].of(
                ids
            )
        else:
            rows = client.rows("emb", ids)
        assert rows.shape == (60, 4)
    assert done == ["ids", "sent"] * 3


def test_rows_come_with_a_push_that_waits_long_for_others() -> None:
    """The trainer is told to ask again, and says anew which rows it wants."""
    with cluster(divided(2, 2, TrainingMode.SYNC)) as found:
        for server in found.servers:
            server.hold = 0.02
        both = [found.client(number) for number in range(2)]
        given = [{"emb@GRAD": rows_of(ids), "w@GRAD": torch.ones(3, 1)} for ids in ([1, 2], [2, 3])]
        later = threading.Timer(0.3, both[1].push, [given[1]])
        later.start()
        ids = torch.tensor([2, 1, 3, 4, 2])
        _, rows = both[0].push_and_pull(given[0], {"emb": ids})
        later.join()
        assert rows["emb"].of(ids)[:, 0].tolist() == [-1.0, -0.5, -0.5, 0.0, -1.0]


def test_the_server_that_answered_last_is_called_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = Servers._sent
    with cluster(divided(servers=3)) as found:
        client = found.client()

        def noted(servers: Servers, address: str, *given: Any) -> MessageSocket:
            sent.append(servers.addresses.index(address))
            return send(servers, address, *given)

        monkeypatch.setattr(Servers, "_sent", noted)
        monkeypatch.setattr(calling, "own_core", lambda: -2)  # no server answers there
        for order in ([2, 0, 1], [1, 2, 0], [0, 1, 2]):
            monkeypatch.setattr(calling, "as_they_come", lambda _, __, order=order: iter(order))
            client.pull()
            sent.clear()
            client.pull()
            assert sent == order[::-1]
        client.leave()


def test_ids_are_dealt_once_a_step_whatever_was_looked_up_between() -> None:
    """As for an evaluation: those of the next step come with the push of this one's."""
    with cluster(divided(servers=2)) as found:
        client, made = found.client(), []
        batches = [torch.arange(start, start + 50) for start in range(0, 500, 50)]
        client.rows("emb", batches[0])
        for number, (ids, following) in enumerate(pairwise(batches)):
            if number == 4:
                client.rows("emb", torch.arange(1000, 1010))
            known = list(client._latest["emb"])
            given = {"emb@GRAD": SelectedRows(ids, 1000, torch.ones(50, 4))}
            client.push_and_pull(given, {"emb": following})
            fresh = [one for one in client._latest["emb"] if one not in known]
            made.append(len(fresh))
        client.leave()
    assert made[:4] == [1] * 4 and made[5:] == [1] * 4


def three_lookups() -> Built:
    """A network that looks the same table up for three slots."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        slots = [fluid.data(f"slot{number}", [None, 1], "int64") for number in range(3)]
        attr = fluid.ParamAttr(name="emb")
        rows = [fluid.embedding(one, [50, 2], is_sparse=True, param_attr=attr) for one in slots]
        loss = fluid.layers.mean(fluid.layers.concat(rows, 1))
        fluid.optimizer.SGD(1.0).minimize(loss)
    return main, startup, loss


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_ids_of_several_lookups_are_dealt_once_a_step(
    sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient has them in the order in which its parts are added up."""
    made: list[int] = []

    def dealt(*given: Any) -> DealtIds:
        made.append(len(given[0]))
        return DealtIds(*given)

    monkeypatch.setattr(table_client, "DealtIds", dealt)
    draws = np.random.RandomState(0)

    def train(trainer: Trainer) -> None:
        for _ in range(5):
            trainer.step({f"slot{one}": draws.randint(0, 50, (4, 1)) for one in range(3)})
            trainer.main._servers.link.flush()  # else several steps' gradients may be one

    Job(three_lookups, servers=2, trainers=1, sync=sync).run(train)
    assert made == [12] * 5
