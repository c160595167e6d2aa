"""Scripts written for pslib: processes that an MPI launcher would start, on refluid's servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port
from refluid.core.selected_rows import SelectedRows
from refluid.fluid.incubate.fleet.base.role_maker import (
    GeneralRoleMaker,
    MPISymetricRoleMaker,
    Role,
)
from refluid.fluid.incubate.fleet.parameter_server.pslib import PSLib, fleet_embedding
from refluid.fluid.incubate.fleet.parameter_server.pslib.workers import DownpourOptimizer
from refluid.fluid.transpiler.unheeded import IDLE, complaints
from refluid.pserver.saved_files import ShardedTables
from refluid.pserver.sharding import save_shards
from tests.pserver.jobs import Built, Job, Trainer

SCRIPT = Path(__file__).with_name("pslib_script.py")
# What each launcher sets: the number of a process, how many there are, how many on its host.
LAUNCHERS = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_script_for_pslib_trains_and_saves(launcher: str, tmp_path: Path) -> None:
    rank, size, here = LAUNCHERS[launcher]
    port = str(free_port())
    path = os.pathsep.join(one for one in sys.path if one)
    given = {**os.environ, size: "4", here: "4", "MASTER_PORT": port, "PYTHONPATH": path}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            env={**given, rank: str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(4)
    ]
    told = [one.communicate(timeout=240)[0] for one in started]
    assert [one.returncode for one in started] == [0] * 4, "\n".join(told)
    done = [(tmp_path / f"done-{number}").read_text() for number in range(2)]
    assert done == ["gathered 3 of [1, 2], rows back True, cleared 0"] * 2
    assert "table 0 (emb):" in told[1]
    assert isinstance(ShardedTables(tmp_path / "model").whole("emb_moment1_0"), object)
    assert not ShardedTables(tmp_path / "xbox").has("emb_moment1_0")
    assert not ShardedTables(tmp_path / "one" / "part").has("w")
    with fluid.scope_guard(fluid.Scope()):
        _, names, targets = fluid.io.load_inference_model(
            str(tmp_path / "serving"), fluid.Executor()
        )
        assert names == ["ids", "x"] and len(targets) == 1


def roles(monkeypatch: pytest.MonkeyPatch, rank: int, size: int, **others: str) -> None:
    for name in (one for launcher in LAUNCHERS.values() for one in launcher):
        monkeypatch.delenv(name, raising=False)
    for name in ("SLURM_PROCID", "SLURM_NTASKS", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    names = LAUNCHERS["Open MPI"]
    for name, value in zip(names, (rank, size, size), strict=True):
        monkeypatch.setenv(name, str(value))
    for name, given in others.items():
        if given:
            monkeypatch.setenv(name, given)
        else:
            monkeypatch.delenv(name)


def test_what_an_mpi_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    roles(monkeypatch, 0, 1, MASTER_PORT=str(free_port()))
    with pytest.raises(EnforceNotMet, match="even number of processes, not 1"):
        MPISymetricRoleMaker().generate_role()
    roles(monkeypatch, 0, 2, OMPI_COMM_WORLD_LOCAL_SIZE="1")
    with pytest.raises(EnforceNotMet, match="several hosts meet at MASTER_ADDR"):
        MPISymetricRoleMaker().generate_role()
    roles(monkeypatch, 0, 2, OMPI_COMM_WORLD_SIZE="")
    with pytest.raises(EnforceNotMet, match="no MPI launcher started this process"):
        MPISymetricRoleMaker().generate_role()


def test_general_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:5,127.0.0.1:6")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:7,127.0.0.1:8")
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    made = GeneralRoleMaker(path="/somewhere", http_ip_port="127.0.0.1:9")
    assert made.is_worker() and made.worker_index() == 1 and not made.is_first_worker()
    assert (made.get_local_endpoint(), made.server_num()) == ("127.0.0.1:8", 2)
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    monkeypatch.setenv("PADDLE_PORT", "6")
    made = GeneralRoleMaker()
    made.barrier_all()
    assert made.is_server() and made.server_index() == 1
    assert made.get_local_endpoint() == "127.0.0.1:6"


def test_each_field_of_the_transpilers_configuration_is_accounted_for() -> None:
    """What none of these names is a field that nobody looks at."""
    acts = "slice_var_up split_method min_block_size mode half_async geo_sgd_mode sync_mode"
    acts += " geo_sgd_need_push_nums enable_dc_asgd runtime_split_send_recv completely_not_async"
    config = fluid.DistributeTranspilerConfig()
    fields = {name for name in dir(config) if not name.startswith("_")}
    assert fields == {*acts.split(), *IDLE}
    assert list(complaints(config)) == []
    config.wait_port, config.nccl_comm_num = False, 2
    told = "\n".join(complaints(config))
    assert "wait_port = False has no effect" in told and "nccl_comm_num = 2" in told


def test_options_of_pslib(caplog: pytest.LogCaptureFixture) -> None:
    from refluid.fluid.incubate.fleet.base.role_maker import UserDefinedRoleMaker

    fleet = PSLib()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
    adam = fluid.optimizer.Adam(1e-3)
    caplog.set_level("WARNING", "refluid")
    fleet.distributed_optimizer(adam, {"use_cvm": False, "opt_class": "DistributedAdam"})
    fleet.distributed_optimizer(adam, {"embedding": {"sparse_learning_rate": 0.05}})
    assert "['opt_class'] = 'DistributedAdam' has no effect here" in caplog.text
    assert "['embedding'] has no effect here" in caplog.text
    with pytest.raises(NotImplementedError, match="count shows and clicks"):
        fleet.distributed_optimizer(adam, {"use_cvm": True})
    with pytest.raises(ValueError, match="pslib has no such option"):
        fleet.distributed_optimizer(adam, {"use_cmv": False})
    with pytest.raises(TypeError, match="a dict of options"):
        fleet.distributed_optimizer(adam, 3)
    with pytest.raises(NotImplementedError, match="losses has 2"):
        fleet.distributed_optimizer(adam).minimize([1, 2])
    with pytest.raises(NotImplementedError, match="updates are not taken back"):
        fleet.revert()
    with fleet_embedding("click"):
        assert np.ones(1) == 1


def _clicks() -> Built:
    """Two tables, as scripts for pslib declare them: of no height, and of one that says nothing."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64")
        half = fluid.initializer.Constant(0.5)
        attr = fluid.ParamAttr(name="grows", initializer=half)
        told = {"is_sparse": True, "is_distributed": True, "param_attr": attr}
        with fleet_embedding("click"):
            grown = fluid.layers.embedding(ids, size=[-1, 3], **told)
        attr = fluid.ParamAttr(name="small", initializer=half)
        small = fluid.layers.embedding(ids, size=[1, 3], is_sparse=True, param_attr=attr)
        loss = fluid.layers.mean(grown + small)
        fluid.optimizer.SGD(1.0).minimize(loss)
    return main, startup, loss


def test_tables_of_pslib_have_no_height(tmp_path: Path) -> None:
    """Any ids come, and are saved as rows; elsewhere -1 is no size."""
    pytest.importorskip("safetensors.torch")

    def train(trainer: Trainer) -> list[float]:
        feed = {"ids": np.array([[2**45], [7]])}
        found = [trainer.step(feed, [trainer.loss])[0].item() for _ in range(2)]
        client = trainer.main._servers.link.client
        rows = client.rows("grows", torch.tensor([2**45, 8]), read_only=True)
        save_shards(trainer.main._servers, tmp_path)
        return [*found, *rows[:, 0].tolist()]

    (found,) = Job(_clicks, 2, 1, sync=True, _any_ids=True).run(train)
    np.testing.assert_allclose(found, [1.0, 1.0 - 2 / 6, 0.5 - 2 / 6, 0.5], rtol=1e-6)
    saved = ShardedTables(tmp_path).whole("grows")
    assert isinstance(saved, SelectedRows) and sorted(saved.rows()) == [7, 2**45]
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = fluid.data("ids", [None, 1], "int64")
        with pytest.raises(ValueError, match="must be given and positive"):
            fluid.layers.embedding(ids, size=[-1, 3], is_sparse=True)


def test_its_optimizer_says_so() -> None:
    strategy = DownpourOptimizer(fluid.optimizer.SGD(0.1), {"use_cvm": False})._strategy
    assert strategy.get_program_config()._any_ids
