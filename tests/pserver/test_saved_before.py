"""`fluid.io.load_persistables` for a server's program, before it serves: training goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from tests.pserver.jobs import Built, Job, Trainer
from tests.pserver.test_optimizers import OPTIMIZERS, RATES, STEPS, feeds, network

HALF = STEPS // 2


def _network() -> Built:
    return network(OPTIMIZERS["adam"], RATES["exponential"], sparse=True)


class Resumed(Job):
    """A job whose servers load a folder, for their startup program or for what they run."""

    folder: Path
    for_startup = True
    loads = threading.Lock()  # the scope that `fluid.io` loads into is the process's

    def _serve(self, address: str) -> None:
        try:
            program, startup = self.trainers[0].transpiler.get_pserver_programs(address)
            scope, executor = fluid.Scope(), fluid.Executor()
            with self.loads, fluid.scope_guard(scope):
                executor.run(startup)
                chosen = startup if self.for_startup else program
                fluid.io.load_persistables(executor, str(self.folder), chosen)
            executor.run(program, scope=scope)
        except BaseException as error:
            self.errors.append(error)


def _losses(trainer: Trainer, given: list[dict[str, Any]]) -> list[float]:
    return [float(trainer.step(one, [trainer.loss])[0].item()) for one in given]


def _notify(trainer: Trainer, folder: Path, table: str = "") -> None:
    """Runs the operator by which a trainer has its servers' tables saved."""
    program = fluid.Program()
    where = {"epmap": list(trainer.main._servers.split.layout.servers), "trainer_id": 0}
    told = {**where, "dir": str(folder), "lookup_table": table}
    program.global_block().append_op(type="checkpoint_notify", attrs=told)
    trainer.executor.run(program, scope=trainer.scope)


@pytest.mark.parametrize("notified", [True, False])
@pytest.mark.parametrize("for_startup", [True, False])
def test_training_goes_on(
    for_startup: bool, notified: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tables, slices, what Adam keeps and the count of steps, by other servers."""
    if notified:
        pytest.importorskip("safetensors.torch")

    def first(trainer: Trainer) -> list[float]:
        found = _losses(trainer, feeds(True)[:HALF])
        with fluid.scope_guard(trainer.scope):
            if notified:
                _notify(trainer, tmp_path)
            else:
                fluid.io.save_persistables(trainer.executor, str(tmp_path), trainer.main)
        return found + _losses(trainer, feeds(True)[HALF:])

    (whole,) = Job(_network, 2, 1, sync=True, min_block_size=4).run(first)
    monkeypatch.setattr(Resumed, "folder", tmp_path, raising=False)
    monkeypatch.setattr(Resumed, "for_startup", for_startup)
    job = Resumed(_network, 3, 1, sync=True, min_block_size=4)
    (rest,) = job.run(lambda trainer: _losses(trainer, feeds(True)[HALF:]))
    np.testing.assert_allclose(rest, whole[HALF:], rtol=1e-5)
    assert np.ptp(whole) > 1e-3


def test_a_folder_that_lacks_a_table_is_refused(tmp_path: Path) -> None:
    main, startup, _ = _network()
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, program=main, pservers="127.0.0.1:1", startup_program=startup)
    begins = transpiler.get_startup_program("127.0.0.1:1")
    with pytest.raises(EnforceNotMet, match=r"has no .*emb.*: servers begin with what"):
        fluid.io.load_persistables(fluid.Executor(), str(tmp_path), begins)


def test_a_table_is_saved_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("safetensors.torch")

    def train(trainer: Trainer) -> Any:
        _losses(trainer, feeds(True)[:HALF])
        _notify(trainer, tmp_path, "emb")
        with pytest.raises(EnforceNotMet, match="no table 'other', but emb"):
            _notify(trainer, tmp_path / "other", "other")
        with fluid.scope_guard(trainer.scope):
            fluid.io.save_vars(trainer.executor, tmp_path / "one", trainer.main, ["emb"])
        plain, found = _network()[0], []
        for folder in (tmp_path, tmp_path / "one"):
            with fluid.scope_guard(fluid.Scope()):
                fluid.io.load_vars(trainer.executor, folder, plain, ["emb"])
                found.append(np.array(fluid.global_scope().find_var("emb").get_tensor()))
        return found

    ((sharded, whole),) = Job(_network, 2, 1, sync=True).run(train)
    np.testing.assert_array_equal(sharded, whole)
    assert np.ptp(whole) > 0 and not (tmp_path / "other").exists()
