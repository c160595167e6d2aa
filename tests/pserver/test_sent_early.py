"""What calls of a step's rows send when: the first server isn't kept waiting, and asked again."""

from __future__ import annotations

import threading

import pytest
import torch

from refluid.kernels.rows.ids import id_loops
from refluid.pserver.layout import TrainingMode
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.wire import MessageSocket
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
