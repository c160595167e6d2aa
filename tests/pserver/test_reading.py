"""Who only reads sees what servers hold now, and training doesn't notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import refluid.fluid as fluid
from refluid.cli.main import app
from refluid.core.errors import EnforceNotMet
from refluid.pserver.layout import TrainingMode, described, layout_of
from refluid.pserver.reading import TableReader
from tests.pserver.jobs import Job, Trainer
from tests.pserver.tables import divided, network

NORMAL = fluid.initializer.Normal(0.0, 0.1)
MOST = 2**62


def built() -> Any:
    return network(fluid.optimizer.Adam(0.1, lazy_mode=True), initializer=NORMAL)


def fed(step: int) -> dict[str, Any]:
    return {"ids": np.array([[3], [step], [MOST + step]]), "x": np.ones((3, 3), "float32")}


@pytest.mark.parametrize("mode", list(TrainingMode))
def test_a_layout_survives_its_description(mode: TrainingMode) -> None:
    import json

    layout = divided(servers=2, mode=mode, initializer=NORMAL).layout
    again = layout_of(json.loads(json.dumps(described(layout))))
    assert again == layout and again.job == layout.job


def trained(reads: bool, tmp_path: Path) -> tuple[list[float], list[Any]]:
    """The losses of a trainer beside which somebody reads, or doesn't; what all servers hold."""
    job = Job(built, 2, 1, True, min_block_size=1)

    def train(trainer: Trainer) -> list[float]:
        losses, link = [], trainer.main._servers.link
        (address, _) = link.client.layout.servers
        test = built()[0].clone(for_test=True)
        for step in range(4):
            losses.append(trainer.step(fed(step), [trainer.loss])[0].item())
            if reads:
                look(address, trainer, test, step)
        state = link.client.state()
        rows = sum(one["rows"]["emb"] for one in state)
        return [losses, rows, [one["pushes"] for one in state]]

    ((losses, *held),) = job.run(train)
    return losses, held


def look(address: str, trainer: Trainer, test: Any, step: int) -> None:
    """Everything that a reader can do; what it sees is what the trainer has."""
    client = trainer.main._servers.link.client
    ids = np.array([[3, MOST + step], [77, 78]])
    with TableReader([address]) as reader:
        rows = reader.rows("emb", ids)
        assert rows.shape == (2, 2, 4)
        known = client.rows("emb", torch.from_numpy(ids[0])).numpy()
        np.testing.assert_array_equal(rows[0], known)
        np.testing.assert_array_equal(rows[1], reader.rows("emb", [77, 78]))
        np.testing.assert_array_equal(reader.parameters()["w"], trainer.value("w"))
        program, scope = reader.connected(test), fluid.Scope()
        reader.refresh(program, scope)
        total = test.global_block().ops[-1].output("Out")[0]
        feed = fed(step)
        (found,) = fluid.Executor().run(program, feed=feed, fetch_list=[total], scope=scope)
        expected = reader.rows("emb", feed["ids"]).sum() + (feed["x"] @ trainer.value("w")).sum()
        np.testing.assert_allclose(found.item(), expected, rtol=1e-5)
        assert [one["trainers"] for one in reader.state()] == [[0], [0]]
        with pytest.raises(EnforceNotMet, match="no table 'bem', but emb"):
            reader.rows("bem", [1])


def test_training_does_not_notice_readers(tmp_path: Path) -> None:
    assert trained(True, tmp_path) == trained(False, tmp_path)


def test_the_command_prints_what_there_is(tmp_path: Path) -> None:
    job = Job(built, 2, 1, True, min_block_size=1)

    def train(trainer: Trainer) -> list[str]:
        for step in range(3):
            trainer.step(fed(step))
        address = trainer.main._servers.link.client.layout.servers[1]
        with fluid.scope_guard(trainer.scope):
            fluid.io.save_inference_model(
                str(tmp_path / "model"),
                ["ids", "x"],
                [trainer.loss],
                trainer.executor,
                trainer.main,
            )
        np.savez(tmp_path / "feed.npz", **fed(0))
        predicts = ["--model", str(tmp_path / "model"), "--feed", str(tmp_path / "feed.npz")]
        asked = [[], ["emb", "3", "5"], predicts, ["bem", "1"]]
        said = [CliRunner().invoke(app, ["tables", address, *one]) for one in asked]
        assert [one.exit_code for one in said] == [0, 0, 0, 2], [one.output for one in said]
        rows = trainer.main._servers.link.client.rows("emb", torch.tensor([3, 5]))
        (loss,) = trainer.step(fed(0), [trainer.loss])
        texts = [one.stdout for one in said]
        shown = [" ".join(f"{one:g}" for one in row) for row in rows.tolist()]
        assert texts[1].splitlines() == [f"3: {shown[0]}", f"5: {shown[1]}"]
        assert float(texts[2].splitlines()[1].strip("[] ")) == pytest.approx(loss.item(), 1e-5)
        return texts

    ((summary, *_),) = job.run(train)
    lines = [line.split() for line in summary.splitlines()[1:]]
    assert [line[1] for line in lines] == ["emb", "emb"]
    assert sum(int(line[2]) for line in lines) == 7 and all(line[-1] == "0" for line in lines)
