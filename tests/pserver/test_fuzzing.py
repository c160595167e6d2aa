"""Messages of every kind with anything in them: a server refuses them, or does what they say."""

from __future__ import annotations

import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage
from scripts.fuzz_servers import fuzz
from tests.pserver.tables import cluster, divided


@pytest.mark.parametrize("count", [2000, pytest.param(150_000, marks=pytest.mark.slow)])
def test_nobody_changes_what_is_not_theirs(count: int) -> None:
    told = fuzz(count, seed=3)
    assert told.total() == count and told["fit"] > 0.01 * count
    assert told["refused"] > 0.6 * count and told["answered"] > 0.1 * count


def test_what_is_refused_has_done_nothing() -> None:
    """Though its first part was right."""
    with cluster(divided()) as found:
        server, client = found.servers[0], found.client()
        ids, wrong = torch.tensor([4]), torch.ones(1, 5)
        arrays = [("emb", ids.numpy()), ("emb", wrong.numpy())]
        logged: list[TableMessage] = []
        server.accepted = logged.append
        asked = TableMessage(Kind.ROWS, 0, client.session, job=server.job, arrays=arrays)
        with pytest.raises(MalformedMessage):
            server.answer(asked)
        with pytest.raises(EnforceNotMet, match="no rows 'emb'"):
            client.set_rows("emb", ids, {"emb": wrong})
        assert server.tables.sparse["emb"].rows == 0 and not logged
        client.push({"emb@GRAD": SelectedRows([4], 1000, torch.ones(1, 4))})
        assert len(logged) == 1
