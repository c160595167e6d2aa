"""A table's rows of a moment, read while it changes; checkpoints written beside pushes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.selected_rows import SelectedRows
from refluid.pserver.checkpoints import ServerCheckpoints
from refluid.pserver.table_spec import Eviction
from tests.pserver.tables import cluster, divided
from tests.pserver.test_row_policies import rate, table


@pytest.mark.parametrize("case", range(12))
def test_a_snapshot_is_of_its_moment(case: int) -> None:
    draws = np.random.RandomState(case)
    own = table("", Eviction(2, 150) if case % 3 == 0 else None)
    universe = torch.tensor(draws.randint(-(2**63), 2**63 - 1, 300))

    def change() -> None:
        ids = universe[torch.tensor(draws.randint(0, len(universe), 40))]
        value = torch.tensor(draws.randn(40, 4).astype("f4"))
        how = draws.randint(8)
        if how == 0:
            own.forget(ids[:5])
        elif how == 1:
            own.put(ids[:1], {"emb": value[:1]})
        elif how == 2:
            own.add(ids, value)
        else:
            own.update(ids, value, rate)

    for _ in range(5):
        for _ in range(draws.randint(1, 6)):
            change()
        ids, kept = own.chunk(0, own.rows)
        snapshot, found = own.snapshot(), []
        step = int(draws.choice([1, 7, 50, 1000]))
        for start in range(0, snapshot.count, step):
            if draws.rand() < 0.7:
                change()
            found.append(snapshot.chunk(start, step))
        own.end_snapshot()
        assert torch.equal(torch.cat([part for part, _ in found]), ids)
        for name, value in kept.items():
            assert torch.equal(torch.cat([part[name] for _, part in found]), value)


def test_pushes_go_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer waits until pushes were made beside it; killed then, nothing is lost."""
    monkeypatch.setattr("refluid.pserver.checkpoints._COPIED", 100)
    ids, pushed, waits = torch.arange(1000), threading.Event(), threading.Event()
    push = {"emb@GRAD": SelectedRows(ids, 1000, torch.ones(1000, 4)), "w@GRAD": torch.ones(3, 1)}
    with cluster(divided()) as found:
        server = found.servers[0]
        kept = ServerCheckpoints(server, tmp_path, logs=True)
        kept.restore()
        client = found.client()
        client.push(push)
        begun = server.tables.sparse["emb"].snapshot

        def held() -> Any:
            snapshot = begun()
            former = snapshot.chunk

            def chunk(start: int, rows: int) -> Any:
                if start:
                    server.changed.release()
                    waits.set()
                    assert pushed.wait(20)
                    server.changed.acquire()
                return former(start, rows)

            monkeypatch.setattr(snapshot, "chunk", chunk)
            return snapshot

        monkeypatch.setattr(server.tables.sparse["emb"], "snapshot", held)
        writes = threading.Thread(target=kept.write)
        writes.start()
        assert waits.wait(20)
        client.push(push)
        client.push(push)
        pushed.set()
        writes.join(20)
        state = (tmp_path / "server-0" / "state-1").stat()
        assert state.st_size and not (tmp_path / "server-0" / "log-0").exists()
        kept.close()
        (tmp_path / "server-0" / "log-1").rename(tmp_path / "aside")
        for expected in (-1.0, -3.0):  # without what came since, and with it
            again = ServerCheckpoints(found.restarted(), tmp_path, logs=True)
            assert again.restore()
            again.close()
            assert client.rows("emb", ids, read_only=True).unique().tolist() == [expected]
            assert client.pull()["w"].unique().tolist() == [expected]
            if expected == -1.0:
                (tmp_path / "aside").replace(tmp_path / "server-0" / "log-1")
