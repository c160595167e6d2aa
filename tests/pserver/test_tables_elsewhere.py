"""Programs that a trainer runs and saves beside the one that was split read its servers' tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from tests.pserver.jobs import Built, Job, Trainer

HEIGHT = 10


class Network:
    """Programs with a table `emb`, and one to test by that is cloned before there is an optimizer.

    sparse: what the test's lookups say. table: another name for it.
    """

    def __init__(self, *, distributed: bool, sparse: bool = True, table: str = "emb") -> None:
        self.distributed, self.sparse, self.table = distributed, sparse, table
        self.test: Any = None
        self.alone: Any = None

    def __call__(self) -> Built:
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            ids = fluid.data("ids", [None, 1], "int64")
            attr = fluid.ParamAttr(self.table, initializer=fluid.initializer.Constant(0.1))
            told = {"is_sparse": True, "is_distributed": self.distributed, "param_attr": attr}
            rows = fluid.layers.embedding(ids, [HEIGHT, 2], **told)
            weight = fluid.ParamAttr(f"{self.table}_w", fluid.initializer.Constant(1.0))
            out = fluid.layers.fc(rows, 1, param_attr=weight, bias_attr=False)
            loss = fluid.layers.mean(fluid.layers.square(out - 1.0))
            self.test = main.clone(for_test=True)
            for op in self.test.global_block().ops:
                if op.type == "lookup_table":
                    op.set_attr("is_sparse", self.sparse)
            fluid.optimizer.SGD(0.5).minimize(loss)
        self.alone = main.clone()
        return main, startup, loss


def given(*ids: int) -> dict[str, Any]:
    return {"ids": np.array(ids, "int64")[:, None]}


def trained_alone(network: Network) -> tuple[float, Any]:
    """The loss of the test after three steps of one process, and the table."""
    _, startup, loss = network()
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    for _ in range(3):
        exe.run(network.alone, given(1, 3), scope=scope)
    found = exe.run(network.test, given(1, 3), [loss.name], scope=scope)[0].item()
    return found, np.array(scope.find_var("emb").get_tensor())


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("distributed", [True, False])
def test_a_program_cloned_early_reads_rows_as_they_are(
    distributed: bool, sparse: bool, tmp_path: Path
) -> None:
    network = Network(distributed=distributed, sparse=sparse or distributed)
    expected, table = trained_alone(network)

    def train(trainer: Trainer) -> list[float]:
        for _ in range(3):
            trainer.step(given(1, 3))
        found = []
        for program in (network.test, fluid.CompiledProgram(network.test)):
            ran = trainer.executor.run(
                program, given(1, 3), [trainer.loss.name], scope=trainer.scope
            )
            found.append(ran[0].item())
        loss = network.test.global_block().var(trainer.loss.name)
        with fluid.scope_guard(trainer.scope):
            fluid.io.save_params(trainer.executor, tmp_path / "params", network.test)
            model, exe = tmp_path / "model", trainer.executor
            fluid.io.save_inference_model(model, ["ids"], [loss], exe, network.test)
        return found

    (found,) = Job(network, servers=2, trainers=1, sync=True).run(train)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for folder in ("params", "model"):
        scope, exe = fluid.Scope(), fluid.Executor()
        with fluid.scope_guard(scope):
            if folder == "model":
                fluid.io.load_inference_model(tmp_path / folder, exe)
            else:
                fluid.io.load_params(exe, tmp_path / folder, network.test)
        read = np.array(scope.find_var("emb").get_tensor())
        np.testing.assert_allclose(read, table, rtol=1e-6)


def test_rows_that_were_loaded_are_read_here(tmp_path: Path) -> None:
    """Where a scope has a table of its own its programs read that, after the servers were left."""
    network = Network(distributed=False)

    def train(trainer: Trainer) -> float:
        trainer.step(given(1, 3))
        exe, loss, scope = fluid.Executor(), trainer.loss.name, trainer.scope
        with fluid.scope_guard(scope):
            fluid.io.save_params(exe, tmp_path, network.test)
            before = exe.run(network.test, given(1, 3), [loss])[0].item()
            trainer.executor.close()
            with pytest.raises(EnforceNotMet, match="emb: servers have the rows, and this trainer"):
                fluid.io.save_params(exe, tmp_path / "late", network.test)
            with pytest.raises(EnforceNotMet, match="emb: servers have the rows, and this trainer"):
                fluid.io.save_persistables(exe, tmp_path / "late", trainer.main)
            fluid.io.load_params(exe, tmp_path, network.test)
            after: float = exe.run(network.test, given(1, 3), [loss])[0].item()
        assert before == after
        return after

    (found,) = Job(network, servers=1, trainers=1, sync=True).run(train)
    assert found > 0.0
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("geo", [False, True])
def test_what_is_loaded_into_a_trainer_alone_is_said(
    geo: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers' values take its place; in GEO a trainer's own move theirs."""
    network = Network(distributed=False)

    def train(trainer: Trainer) -> list[float]:
        exe, loss, main = trainer.executor, trainer.loss.name, trainer.main
        with fluid.scope_guard(trainer.scope):
            trainer.step(given(1, 3))
            fluid.io.save_persistables(exe, tmp_path, main)
            fluid.save(main, str(tmp_path / "all"))
            for _ in range(4):
                trainer.step(given(1, 3))
            assert not caplog.messages
            before = exe.run(network.test, given(1, 3), [loss])[0].item()
            fluid.io.load_vars(exe, tmp_path, main, ["emb"])
            fluid.load(main, str(tmp_path / "all"), exe, [main.global_block().var("emb")])
            after = exe.run(network.test, given(1, 3), [loss])[0].item()
            fluid.io.load_persistables(exe, tmp_path, main)
        return [before, after]

    told = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 1} if geo else {}
    (found,) = Job(network, servers=1, trainers=1, sync=not geo, **told).run(train)
    said = [one.partition(":")[0] for one in caplog.messages if "into this trainer alone" in one]
    assert said == ([] if geo else ["emb", "emb", "emb, emb_w"])
    assert (found[0] == found[1]) is not geo


@pytest.mark.parametrize("geo", [False, True])
def test_a_table_that_is_fetched_has_no_rows_in_a_trainer(
    geo: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is said once; in GEO it has them all."""
    network = Network(distributed=False)

    def train(trainer: Trainer) -> Any:
        for program in (trainer.main, network.test, trainer.main):
            (found,) = trainer.executor.run(program, given(1), ["emb"], scope=trainer.scope)
        return found

    told = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 1} if geo else {}
    (found,) = Job(network, servers=1, trainers=1, sync=not geo, **told).run(train)
    said = [one for one in caplog.messages if one.startswith("table emb is fetched from a trainer")]
    assert len(said) == (not geo)
    assert found.shape == (HEIGHT, 2) and found.any() == geo


def test_two_jobs_in_one_scope_each_have_their_servers(tmp_path: Path) -> None:
    networks = [Network(distributed=False, table=name) for name in ("first", "second")]
    jobs = [Job(network, servers=1, trainers=1, sync=True) for network in networks]
    both = [job.trainers[0] for job in jobs]

    def train(trainer: Trainer) -> list[float]:
        both[1].scope = trainer.scope
        both[1].begin()
        found = []
        for one, network in zip(both, networks, strict=True):
            for _ in range(3):
                one.step(given(1, 3))
            exe = one.executor
            found += exe.run(network.test, given(1, 3), [one.loss.name], scope=trainer.scope)
            with fluid.scope_guard(trainer.scope):
                fluid.io.save_params(exe, tmp_path, network.test)
        both[1].executor.close()
        return [float(one.item()) for one in found]

    (found,) = jobs[0].run(train)
    for thread in jobs[1]._threads:
        thread.join(60)
    assert not jobs[1].errors
    expected, table = trained_alone(Network(distributed=False))
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-6)
    for network in networks:
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_params(fluid.Executor(), tmp_path, network.test)
            read = np.array(fluid.global_scope().find_var(network.table).get_tensor())
        np.testing.assert_allclose(read, table, rtol=1e-6)


def test_what_needs_a_whole_table_is_refused_with_its_line() -> None:
    network = Network(distributed=True)

    def train(trainer: Trainer) -> str:
        program = fluid.Program()
        with fluid.program_guard(program, fluid.Program()):
            told = {"name": "emb", "shape": [HEIGHT, 2], "dtype": "float32", "persistable": True}
            total = fluid.layers.reduce_sum(program.global_block().create_var(**told))
        with pytest.raises(EnforceNotMet) as caught:
            trainer.executor.run(program, fetch_list=[total], scope=trainer.scope)
        return str(caught.value)

    (told,) = Job(network, servers=1, trainers=1, sync=False).run(train)
    assert "operator reduce_sum needs table 'emb'" in told
    assert "total = fluid.layers.reduce_sum(" in told
