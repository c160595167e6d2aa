"""Servers killed at any time go on with tables on disk, counts and passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.selected_rows import SelectedRows
from refluid.pserver.checkpoints import ServerCheckpoints
from refluid.pserver.layout import JobLayout
from refluid.pserver.passes import end_pass
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.table_making import TableMaking
from refluid.pserver.table_spec import Eviction
from tests.pserver.tables import Cluster, cluster, divided

pytest.importorskip("lmdb")

from refluid.pserver.disk_rows import RowStore
from tests.choices import crossed

OPTIMIZERS = [fluid.optimizer.Momentum(0.5, 0.5), fluid.optimizer.Adam(0.1, lazy_mode=True), None]


def with_entry(parts: Split, entry: str) -> Split:
    (table,) = parts.layout.sparse
    layout = parts.layout
    known = layout.servers, layout.trainers, layout.mode, layout.dense
    side = replace(parts.side, layout=JobLayout(*known, (replace(table, entry=entry),)))
    return replace(parts, layout=side.layout, side=side)


@pytest.mark.parametrize(
    ("case", "logs"),
    crossed(
        range(6),
        [False, True],
        fast=[(0, False), (1, False), (2, True), (3, False), (4, False), (5, True)],
    ),
)
def test_a_server_killed_at_any_time(case: int, logs: bool, tmp_path: Path) -> None:
    draws = np.random.RandomState(case)
    parts = divided(optimizer=OPTIMIZERS[case % 3])
    parts = with_entry(parts, str(draws.choice(["none", "count_filter_entry:2"])))
    eviction = Eviction(int(draws.choice([0, 2]))) if case % 2 else None
    stores: list[RowStore] = []

    def on_disk(_number: int) -> TableMaking:
        stores.append(RowStore(tmp_path / "rows"))
        return TableMaking(eviction, tmp_path, 3000, 1, stores[-1])

    def in_memory(_number: int) -> TableMaking:
        return TableMaking(eviction)

    ids = torch.tensor(draws.randint(-(2**63), 2**63 - 1, 100))
    pushes = [draws.choice(ids, 40) for _ in range(30)]
    values = torch.tensor(draws.randn(30, 40, 4).astype("f4"))
    with cluster(parts, on_disk) as found, cluster(parts, in_memory) as other:
        kept = ServerCheckpoints(found.servers[0], tmp_path, logs=logs, store=stores[-1])
        kept.restore()
        client, reference = found.client(), other.client()
        done = 0
        for number, (some, value) in enumerate(zip(pushes, values, strict=True), 1):
            for one in (client, reference):
                one.push({"emb@GRAD": SelectedRows(some, 1000, value)})
                if not number % 7 and eviction is not None:
                    end_pass(one)
            if draws.rand() < 0.2 or number == 1:
                kept.write()
                done = number
            if draws.rand() < 0.2 and (logs or done == number):
                kept.close()
                stores[-1].close()
                again = found.restarted()
                kept = ServerCheckpoints(again, tmp_path, logs=logs, store=stores[-1])
                assert kept.restore()
            check(client, reference, ids, found, other)
        kept.close()
    stores[-1].close()


def check(
    client: TableClient, reference: TableClient, ids: torch.Tensor, *clusters: Cluster
) -> None:
    assert torch.equal(*(one.rows("emb", ids, read_only=True) for one in (client, reference)))
    tables = [one.servers[0].tables.sparse["emb"] for one in clusters]
    assert tables[0].rows == tables[1].rows
    for own, known in zip(*(one.parts() for one in tables), strict=True):
        assert own.marks() == known.marks()
        assert torch.equal(own.peek(ids), known.peek(ids))


def test_a_crash_between_files_and_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []

    def on_disk(_number: int) -> TableMaking:
        stores.append(RowStore(tmp_path / "rows"))
        return TableMaking(None, tmp_path, 3000, 1, stores[-1])

    push = {"emb@GRAD": SelectedRows([1, 2], 1000, torch.ones(2, 4)), "w@GRAD": torch.ones(3, 1)}
    with cluster(divided(), on_disk) as found:
        kept = ServerCheckpoints(found.servers[0], tmp_path, logs=True, store=stores[0])
        kept.restore()
        client = found.client()
        client.push(push)
        kept.write()
        client.push(push)
        monkeypatch.setattr(stores[0], "commit", lambda _number: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            kept.write()
        assert {one.name for one in kept.home.glob("state-*")} == {"state-1", "state-2"}
        kept.close()
        stores[0].close()
        again = ServerCheckpoints(found.restarted(), tmp_path, logs=True, store=stores[1])
        assert again.restore()
        assert client.rows("emb", torch.tensor([1, 2])).unique().tolist() == [-2.0]
        assert client.pull()["w"].unique().tolist() == [-2.0]
        again.write()
        assert {one.name for one in kept.home.iterdir()} == {"state-2", "log-2"}
        again.close()
    stores[1].close()
