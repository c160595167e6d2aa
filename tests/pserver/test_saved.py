"""Files that a trainer writes have what servers hold: whole parameters, tables and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.fluid.core import AnalysisConfig, PaddleTensor, create_paddle_predictor
from refluid.pserver.loading import load_server
from refluid.pserver.reading import TableReader
from refluid.pserver.server_making import table_server
from refluid.pserver.sharding import save_shards
from tests.pserver.jobs import Job, Trainer
from tests.pserver.tables import network


def built() -> object:
    initializer = fluid.initializer.Normal(0.0, 0.1)
    return network(fluid.optimizer.Adam(0.1, lazy_mode=True), initializer=initializer)


def test_what_is_saved_is_what_one_process_would_have(tmp_path: Path) -> None:
    feed = {"ids": np.array([[3], [999]]), "x": np.ones((2, 3), "float32")}

    def train(trainer: Trainer) -> None:
        before = trainer.main._servers.link.client.rows("emb", _ids(3, 5, 999)).clone()
        for _ in range(2):
            trainer.step(feed)
        with fluid.scope_guard(trainer.scope):
            fluid.io.save_persistables(trainer.executor, str(tmp_path / "all"), trainer.main)
            fluid.save(trainer.main, str(tmp_path / "one"))
            fluid.io.save_inference_model(
                str(tmp_path / "model"),
                ["ids", "x"],
                [trainer.loss],
                trainer.executor,
                trainer.main,
            )
        after = trainer.main._servers.link.client.rows("emb", _ids(3, 5, 999))
        assert not (before == after)[[0, 2]].any()
        state = fluid.io.load_program_state(str(tmp_path / "one"))
        table = state["emb"]
        np.testing.assert_array_equal(table[[3, 5, 999]], after.numpy())
        assert table.shape == (1000, 4)
        np.testing.assert_allclose(table.std(), 0.1, atol=0.01)
        assert (state["emb_moment1_0"] != 0).any(1).nonzero()[0].tolist() == [3, 999]
        np.testing.assert_allclose(state["w"], trainer.value("w"))
        assert state["w_moment1_0"].shape == (3, 1)
        (loss,) = trainer.step(feed, [trainer.loss])
        with fluid.scope_guard(fluid.Scope()):
            program, names, targets = fluid.io.load_inference_model(
                str(tmp_path / "model"), trainer.executor
            )
            (found,) = trainer.executor.run(program, feed=feed, fetch_list=targets)
        assert names == ["ids", "x"]
        np.testing.assert_allclose(found, loss, rtol=1e-6)

    job = Job(built, 2, 1, True, min_block_size=1)
    split = job.trainers[0].main._servers.split
    job.run(train)
    assert loaded_rows(split, tmp_path / "all") == 1000


def test_a_model_of_rows_predicts_by_itself(tmp_path: Path) -> None:
    """A table of any ids is rows in the model; what has none is read as it would begin."""
    most = 2**62
    feeds = [
        {"ids": np.array([[3], [most], [3]]), "x": np.ones((3, 3), "float32")},
        {"ids": np.array([[-7], [most], [5]]), "x": np.ones((3, 3), "float32")},
    ]

    def train(trainer: Trainer) -> None:
        trainer.step(feeds[0])
        executor, link = trainer.executor, trainer.main._servers
        folders = {str(tmp_path / "model"): None, str(tmp_path / "one"): "parameters"}
        with fluid.scope_guard(trainer.scope):
            given = ["ids", "x"], [trainer.loss], executor, trainer.main
            for folder, file in folders.items():
                fluid.io.save_inference_model(folder, *given, params_filename=file)
            save_shards(link, tmp_path / "shards", parameters_only=True)
        with TableReader(link.split.layout.servers) as reader:
            sums = [reader.rows("emb", one["ids"]).sum() for one in feeds]
            wanted = [rows + (feeds[0]["x"] @ trainer.value("w")).sum() for rows in sums]
            for folder, file in folders.items():
                predictor = create_paddle_predictor(config_of(folder, file))
                for shards in (False, True):
                    scope = fluid.Scope()
                    with fluid.scope_guard(scope):
                        program, _, targets = fluid.io.load_inference_model(
                            folder, executor, params_filename=file
                        )
                        assert sorted(scope.find_var("emb").value.rows()) == [3, most]
                        if shards:
                            load = fluid.io.load_persistables
                            load(executor, str(tmp_path / "shards"), program)
                        for feed, expected in zip(feeds, wanted, strict=True):
                            (found,) = executor.run(program, feed=feed, fetch_list=targets)
                            np.testing.assert_allclose(found.item(), expected, rtol=1e-6)
                for feed, expected in zip(feeds, wanted, strict=True):
                    (told,) = predictor.run([PaddleTensor(feed[one]) for one in given[0]])
                    np.testing.assert_allclose(told.as_ndarray().item(), expected, rtol=1e-6)
            asking = reader.connected(program)
            assert "distributed_lookup_table" in [op.type for op in asking.global_block().ops]
            reader.refresh(asking, scope)
            (found,) = executor.run(asking, feed=feeds[1], fetch_list=targets, scope=scope)
            np.testing.assert_allclose(found.item(), wanted[1], rtol=1e-6)

    Job(built, 2, 1, True, min_block_size=1).run(train)


def config_of(folder: str, file: str | None) -> AnalysisConfig:
    """Of a predictor of a folder, whose parameters may be in one file."""
    if file is None:
        return AnalysisConfig(folder)
    return AnalysisConfig(f"{folder}/__model__", f"{folder}/{file}")


def loaded_rows(split: Any, folder: Path) -> int:
    """How many rows new servers have, which loaded what was saved; their slices are its parts."""
    rows = 0
    for endpoint in split.layout.servers:
        scope = fluid.Scope()
        fluid.Executor().run(split.startup(endpoint), scope=scope)
        server = table_server(split.program(endpoint), split.layout, scope)
        load_server(server, split, folder)
        rows += server.tables.sparse["emb"].rows
        for name, value in server.tables.dense.values().items():
            whole = np.frombuffer((folder / "w").read_bytes()[-12:], "float32")
            part = {"w.block0": whole[:2], "w.block1": whole[2:]}[name]
            np.testing.assert_array_equal(value.numpy().ravel(), part)
    return rows


def _ids(*ids: int) -> object:
    import torch

    return torch.tensor(ids)
