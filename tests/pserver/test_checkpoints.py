"""A server that was killed goes on from its checkpoint and its log: no update lost or doubled."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.pserver.checkpoints import ServerCheckpoints
from refluid.pserver.layout import TrainingMode
from refluid.pserver.table_client import TableClient
from tests.pserver.tables import at_once, cluster, divided


def push(client: TableClient) -> None:
    rows = SelectedRows([1, 2**40], 1000, torch.ones(2, 4))
    client.push({"emb@GRAD": rows, "w@GRAD": torch.ones(3, 1)})


def values(client: TableClient) -> list[float]:
    rows = client.rows("emb", torch.tensor([1, 2**40]))
    return [*rows.unique().tolist(), *client.pull()["w"].unique().tolist()]


@pytest.mark.parametrize("mode", [TrainingMode.ASYNC, TrainingMode.SYNC])
def test_what_came_after_a_checkpoint_is_in_the_log(mode: TrainingMode, tmp_path: Path) -> None:
    optimizer = fluid.optimizer.Momentum(1.0, 0.5)
    with cluster(divided(mode=mode, optimizer=optimizer)) as found:
        kept = ServerCheckpoints(found.servers[0], tmp_path, logs=True)
        kept.restore()
        client = found.client()
        push(client)
        kept.write()
        push(client)
        push(client)
        expected = values(client)
        kept.close()
        with next(tmp_path.rglob("log-1")).open("ab") as file:
            file.write(b"\x07half of a message")
        again = ServerCheckpoints(found.restarted(), tmp_path, logs=True)
        assert again.restore()
        assert values(client) == expected == [-4.25, -4.25]
        # The answer to the last push may have been lost: it is sent again, and counts once.
        client.sequence -= 1
        push(client)
        assert values(client) == expected
        push(client)
        assert values(client) == [-6.125, -6.125]
        again.close()


def test_a_server_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    with cluster(divided(optimizer=fluid.optimizer.Adam(0.1, lazy_mode=True))) as found:
        kept, client = ServerCheckpoints(found.servers[0], tmp_path), found.client()
        push(client)
        kept.write()
        once = values(client)
        push(client)
        twice = values(client)
        assert once != twice
        assert ServerCheckpoints(found.restarted(), tmp_path).restore()
        assert values(client) == once
        push(client)
        assert values(client) == twice


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    with cluster(divided()) as found:
        kept, client = ServerCheckpoints(found.servers[0], tmp_path), found.client()
        push(client)
        kept.write()
        before = {one.name: one.read_bytes() for one in kept.home.iterdir()}

        def full(*_given: object) -> None:
            raise OSError(28, "No space left on device")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("refluid.pserver.row_snapshots.RowSnapshot.chunk", full)
            with pytest.raises((EnforceNotMet, OSError), match="No space left"):
                kept.write()
        assert found.servers[0].tables.sparse["emb"]._snapshot is None
        assert {one.name: one.read_bytes() for one in kept.home.iterdir()} == before
        push(client)


def test_another_jobs_and_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    with cluster(divided()) as found:
        kept = ServerCheckpoints(found.servers[0], tmp_path)
        push(found.client())
        kept.write()
    with cluster(divided(width=5)) as other, pytest.raises(EnforceNotMet, match="another job"):
        ServerCheckpoints(other.servers[0], tmp_path).restore()
    path = kept.home / "state-1"
    path.write_bytes(path.read_bytes()[:-3])
    with cluster(divided()) as found, pytest.raises(EnforceNotMet, match="damaged"):
        ServerCheckpoints(found.servers[0], tmp_path).restore()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is in it stays whole; after the next checkpoint there is a log again."""
    with cluster(divided()) as found:
        kept, client = ServerCheckpoints(found.servers[0], tmp_path, logs=True), found.client()
        kept.restore()
        push(client)
        with Path("/dev/full").open("wb") as full:
            own, kept._log._file = kept._log._file, full
            push(client)
            push(client)
        assert own is not None
        own.close()
        assert caplog.text.count("No space left on device. If this server is killed") == 1
        assert values(client) == [-3.0, -3.0]
        kept.write()
        push(client)
        kept.close()
        again = ServerCheckpoints(found.restarted(), tmp_path, logs=True)
        assert again.restore() and values(client) == [-4.0, -4.0]
        again.close()


@pytest.mark.parametrize("logs", [False, True])
def test_a_job_that_ended_begins_again_from_what_it_learned(logs: bool, tmp_path: Path) -> None:
    """With all trainers awaited: the first alone would make the mean of its own gradients."""
    with cluster(divided(trainers=2, mode=TrainingMode.SYNC)) as found:
        kept = ServerCheckpoints(found.servers[0], tmp_path, logs=logs)
        kept.restore()
        clients = [found.client(number) for number in range(2)]
        at_once(*(partial(push, client) for client in clients))
        at_once(*(partial(client.gather, torch.ones(1)) for client in clients))
        for client in clients:
            client.leave()
        assert found.servers[0].over
        if not logs:
            kept.write()
        kept.close()
        again = ServerCheckpoints(found.restarted(), tmp_path, logs=logs)
        assert again.restore()
        server = found.servers[0]
        assert not server.over and server.members.awaited == {0, 1}
        clients = [found.client(number) for number in range(2)]
        at_once(*(partial(push, client) for client in clients))
        assert values(clients[0]) == [-2.0, -2.0]
        gathers = [partial(client.gather, torch.zeros(1)) for client in clients]
        assert at_once(*gathers) == [[torch.zeros(1)] * 2] * 2
        again.close()
