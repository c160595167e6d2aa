"""Tables in shards of safetensors: by any number of servers, by one process, and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer

import refluid.fluid as fluid
from refluid.cli.tables import tables
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.draws import UNIFORM, RowDraws
from refluid.pserver.layout import TrainingMode
from refluid.pserver.loading import load_from_trainer, load_server
from refluid.pserver.saved_files import ShardedTables
from refluid.pserver.sharding import save_shards
from refluid.pserver.shards import INDEX, ShardedTensors, ShardPiece, write_shards
from refluid.pserver.table_client import TableClient
from tests.pserver.jobs import Job, Trainer
from tests.pserver.tables import cluster, divided, network

safetensors = pytest.importorskip("safetensors.torch")


def adam() -> Any:
    return fluid.optimizer.Adam(0.1, lazy_mode=True)


class _Link:
    """A connection as `save_shards` is given one."""

    def __init__(self, client: TableClient, split: Any) -> None:
        self.client, self.split, self.link = client, split, self

    def flush(self) -> None:
        """All is pushed."""


def trained(client: TableClient, seed: int) -> None:
    """Pushes a few gradients of random ids, some of any size."""
    random = np.random.RandomState(seed)
    for _ in range(3):
        ids = torch.from_numpy(random.randint(0, 1000, random.randint(1, 300)))
        client.push(
            {
                "emb@GRAD": SelectedRows(ids, 1000, torch.rand(len(ids), 4)),
                "w@GRAD": torch.rand(3, 1),
            }
        )


@pytest.mark.parametrize("servers", [(1, 2), (3, 1), (2, 3)])
def test_shards_are_loaded_by_another_number_of_servers(
    servers: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refluid.pserver.sharding._ROWS", 50)
    monkeypatch.setattr("refluid.pserver.sharding.write_shards", _small)
    parts = divided(servers[0], optimizer=adam())
    with cluster(parts) as made:
        client = made.client()
        trained(client, servers[0])
        every = torch.arange(1000)
        rows = client.rows("emb", every)
        held = {
            int(i): v
            for ids, kept in client.export("emb")
            for i, v in zip(ids, kept["emb_moment1_0"], strict=True)
        }
        dense = client.pull()["w"]
        save_shards(_Link(client, parts), tmp_path)
        client.leave()
    assert len(json.loads((tmp_path / INDEX).read_text())["weight_map"]) > 8
    others = divided(servers[1], optimizer=adam())
    with cluster(others) as made:
        for server in made.servers:
            load_server(server, others, tmp_path)
        client = made.client()
        assert torch.equal(client.rows("emb", every), rows)
        found = {
            int(i): v
            for ids, kept in client.export("emb")
            for i, v in zip(ids, kept["emb_moment1_0"], strict=True)
        }
        assert found.keys() == held.keys()
        assert all(torch.equal(found[one], held[one]) for one in held)
        assert torch.equal(client.pull()["w"], dense)
        client.leave()
    with cluster(others) as made:
        client = made.client()
        load_from_trainer(client, others, tmp_path)
        assert torch.equal(client.rows("emb", every), rows)
        assert torch.equal(client.pull()["w"], dense)
        client.leave()


def _small(folder: Any, pieces: Any, about: Any) -> None:
    write_shards(folder, pieces, about, most=3000)


def test_one_process_goes_on_from_shards(tmp_path: Path) -> None:
    """As many steps after loading give what the job itself goes on to."""
    feed = {"ids": np.array([[3], [999]]), "x": np.ones((2, 3), "float32")}

    def build() -> Any:
        return network(adam(), initializer=fluid.initializer.Uniform(-0.1, 0.1))

    def train(trainer: Trainer) -> tuple[Any, Any]:
        trainer.step(feed)
        with fluid.scope_guard(trainer.scope):
            save_shards(trainer.main._servers, tmp_path)
        trainer.step(feed)
        client = trainer.main._servers.link.client
        return client.rows("emb", torch.tensor([3, 5, 999])), client.pull()["w"]

    job = Job(build, 2, 1, True, min_block_size=1)
    rows, dense = job.run(train)[0]
    main, startup, _ = build()
    executor, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        executor.run(startup)
        fluid.io.load_persistables(executor, str(tmp_path), main)
        executor.run(main, feed=feed)
        np.testing.assert_allclose(np.array(scope.find_var("emb").get_tensor())[[3, 5, 999]], rows)
        np.testing.assert_allclose(np.array(scope.find_var("w").get_tensor()), dense)


def test_rows_that_are_too_many_stay_rows(tmp_path: Path) -> None:
    parts = divided(2, optimizer=adam())
    with cluster(parts) as made:
        client = made.client()
        ids = torch.tensor([2**40, -1])
        client.push({"emb@GRAD": SelectedRows(ids, 1000, torch.ones(2, 4))})
        save_shards(_Link(client, parts), tmp_path, parameters_only=True)
        found = ShardedTables(tmp_path).whole("emb")
        assert isinstance(found, SelectedRows)
        order = torch.argsort(found.index, descending=True)
        assert found.index[order].tolist() == ids.tolist()
        assert torch.equal(found.value[order], client.rows("emb", ids))
        client.leave()


def test_others_read_the_files(tmp_path: Path) -> None:
    """Each file is one of safetensors with the tensors that the index says, none twice."""
    random = np.random.RandomState(0)
    values = {f"t{n}": torch.rand(int(random.randint(0, 60)), 3) for n in range(30)}
    pieces = [
        ShardPiece((name,), value.nbytes, lambda name=name: {name: values[name]})
        for name, value in values.items()
    ]
    write_shards(tmp_path, pieces, {}, most=1500)
    index = json.loads((tmp_path / INDEX).read_text())
    files = sorted(set(index["weight_map"].values()))
    assert [one.name for one in sorted(tmp_path.iterdir())] == [*files, INDEX]
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors" and len(files) > 5
    found = {
        name: value
        for file in files
        for name, value in safetensors.load_file(tmp_path / file).items()
    }
    assert found.keys() == values.keys()
    assert all(torch.equal(found[name], values[name]) for name in values)
    assert index["metadata"]["total_size"] == sum(one.nbytes for one in values.values())
    write_shards(tmp_path, pieces[:1], {})
    assert len(list(tmp_path.iterdir())) == 2
    assert ShardedTensors(tmp_path).names == ["t0"]


def test_the_command_prints_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("refluid.pserver.sharding._ROWS", 1)
    parts = divided(2, optimizer=adam())
    with cluster(parts) as made:
        client = made.client()
        client.push({"emb@GRAD": SelectedRows(torch.tensor([2, 7]), 1000, torch.ones(2, 4))})
        save_shards(_Link(client, parts), tmp_path)
        row = client.rows("emb", torch.tensor([7]))[0].tolist()
        client.leave()
    tables(str(tmp_path))
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.strip().startswith("emb")]
    assert line.split()[:3] == ["emb", "1,000", "2"]
    tables(str(tmp_path), "emb", [7, 8])
    assert capsys.readouterr().out == f"7: {' '.join(f'{one:g}' for one in row)}\n"
    with pytest.raises(typer.Exit):
        tables(str(tmp_path), "no_such", [7])


@pytest.mark.parametrize("damage", ["cut", "a bit", "gone", "index", "elsewhere", "no tables"])
def test_a_damaged_shard_is_refused(damage: str, tmp_path: Path) -> None:
    parts = divided(1)
    with cluster(parts) as made:
        client = made.client()
        trained(client, 1)
        save_shards(_Link(client, parts), tmp_path)
        client.leave()
        shard, index = next(tmp_path.glob("*.safetensors")), tmp_path / INDEX
        raw = shard.read_bytes()
        named = shard.name
        if damage == "cut":
            shard.write_bytes(raw[:-5])
        elif damage == "a bit":
            place = np.random.RandomState(0).randint(len(raw))
            shard.write_bytes(raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :])
        elif damage == "gone":
            shard.unlink()
        elif damage == "index":
            index.write_text(index.read_text()[:-30])
            named = INDEX
        elif damage == "elsewhere":
            index.write_text(index.read_text().replace(shard.name, f"../{shard.name}"))
            named = INDEX
        else:
            index.write_text(index.read_text().replace("refluid tables", "other tables"))
            named = "no tables of servers"
        with pytest.raises(EnforceNotMet, match=named):
            load_server(made.servers[0], parts, tmp_path)


def test_geo_keeps_tables_alone(tmp_path: Path) -> None:
    parts = divided(1, mode=TrainingMode.GEO, optimizer=adam())
    with cluster(parts) as made:
        client = made.client()
        ids = torch.tensor([7])
        client.push({"emb": SelectedRows(ids, 1000, torch.ones(1, 4))}, delta=True)
        save_shards(_Link(client, parts), tmp_path)
        saved = ShardedTables(tmp_path)
        assert saved.has("emb") and not saved.has("emb_moment1_0")
        whole = saved.whole("emb")
        assert isinstance(whole, torch.Tensor) and whole.sum() == 4
        client.leave()


def test_rows_that_are_not_there_are_drawn(tmp_path: Path) -> None:
    parts = divided(1, initializer=fluid.initializer.Uniform(-1.0, 1.0))
    with cluster(parts) as made:
        client = made.client()
        save_shards(_Link(client, parts), tmp_path)
        whole = ShardedTables(tmp_path).whole("emb")
        every = torch.arange(1000)
        assert isinstance(whole, torch.Tensor)
        assert torch.equal(whole, client.rows("emb", every, read_only=True))
        assert isinstance(parts.layout.sparse[0].draws, RowDraws)
        assert parts.layout.sparse[0].draws.kind == UNIFORM
        client.leave()
