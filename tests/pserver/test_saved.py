"""Files that a trainer writes have what servers hold: whole parameters, tables and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.pserver.loading import load_server
from refluid.pserver.server_making import table_server
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
