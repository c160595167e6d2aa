"""DistributeTranspiler without servers, over real processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from tests.collective.jobs import as_trainers
from tests.collective.networks import built
from tests.collective.training import OPTIMIZERS, train, train_transpiled

KINDS = ["parallel executor", "compiled", "collective"]


def test_transpiled_programs_train_as_one(tmp_path: Path) -> None:
    trained = as_trainers(2, train_transpiled, KINDS, folder=tmp_path)
    losses, learned = train("momentum", {}, 1, False)
    for own in trained:
        assert isinstance(own, list), own
    for number, kind in enumerate(KINDS):
        found = [own[number] for own in trained]
        mean = np.mean([one[0] for one in found], 0)
        np.testing.assert_allclose(mean, losses, rtol=1e-5, err_msg=kind)
        for _, own in found:
            for name, value in learned.items():
                np.testing.assert_allclose(own[name], value, rtol=1e-5, atol=1e-6, err_msg=kind)


def test_without_updates_there_is_little_to_do(caplog: pytest.LogCaptureFixture) -> None:
    """As Fluid's documentation does: barriers alone, as recorded."""
    main, startup = fluid.Program(), fluid.Program()
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, main, "a:1,b:2", 4, startup_program=startup)
    assert "the program updates no parameters" in caplog.text
    trainer = transpiler.get_trainer_program(wait_port=False)
    assert [op.type for op in trainer.global_block().ops] == ["send_barrier", "fetch_barrier"]
    assert [op.type for op in startup.global_block().ops] == ["fetch_barrier"]
    server, first = transpiler.get_pserver_programs("b:2")
    assert [op.type for op in server.global_block().ops] == ["listen_and_serv"]
    assert not first.global_block().ops


def test_what_is_wrong_is_said() -> None:
    main, startup, loss = built(OPTIMIZERS["momentum"])
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    transpiler = fluid.DistributeTranspiler(config)
    with pytest.raises(TypeError, match="needs trainers='host:port"):
        transpiler.transpile(0, program=main, trainers=2)
    with pytest.raises(ValueError, match="is not at current_endpoint"):
        transpiler.transpile(1, program=main, trainers="a:1,b:2", current_endpoint="a:1")
    config.mode = "collective"
    with pytest.raises(ValueError, match="invalid collective_mode: None"):
        transpiler.transpile(0, main, trainers="a:1,b:2", current_endpoint="a:1")
    config.mode = "nccl2"
    transpiler.transpile(0, main, trainers="a:1,b:2", current_endpoint="a:1")
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = 3, 2
    compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, strategy)
    with fluid.scope_guard(fluid.Scope()):
        fluid.Executor().run(startup)
        with pytest.raises(EnforceNotMet, match="transpiled for trainer 0 of 2"):
            fluid.Executor().run(compiled, feed={}, fetch_list=[loss])
