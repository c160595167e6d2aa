"""Who a process is by torchrun's and SLURM's variables, put in Fluid's words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.job_variables import first_of_nodes, job_int, job_str
from refluid.core.ports import free_port
from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from tests.collective.jobs import as_trainers
from tests.started import refluid

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "900"}
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NTASKS": "8",
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_NODELIST": "rack[07-08],login",
    "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9",
}
FLUIDS = ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ENDPOINTS")


@pytest.fixture(autouse=True)
def nobody_says_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FLUIDS, "PADDLE_PSERVERS_IP_PORT_LIST", *TORCHRUN, *SLURM):
        monkeypatch.delenv(name, raising=False)


def say(monkeypatch: pytest.MonkeyPatch, told: dict[str, str]) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("told", "first"), [(TORCHRUN, "10.0.0.1:901"), (SLURM, "rack07:24711")], ids=["torch", "slurm"]
)
def test_what_others_say(told: dict[str, str], first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_str("PADDLE_TRAINER_ENDPOINTS") is None and job_int("PADDLE_TRAINER_ID", 5) == 5
    say(monkeypatch, told)
    port = first.rpartition(":")[2]
    assert job_str("PADDLE_TRAINER_ENDPOINTS") == f"{first},trainer-1:{port}"
    assert job_str("PADDLE_CURRENT_ENDPOINT") == f"trainer-1:{port}"
    assert (job_int("PADDLE_TRAINER_ID", 0), job_int("PADDLE_TRAINERS_NUM", 1)) == (1, 2)
    role = PaddleCloudRoleMaker(is_collective=True)
    assert (role.worker_index(), role.worker_num()) == (1, 2)
    env = fluid.dygraph.parallel.Env()
    assert (env.local_rank, env.nranks, env.trainer_endpoints[0]) == (1, 2, first)


def test_fluids_variables_count_first(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, {**TORCHRUN, **SLURM, "PADDLE_TRAINER_ID": "0"})
    assert job_int("PADDLE_TRAINER_ID", 0) == 0 and job_int("PADDLE_TRAINERS_NUM", 1) == 1
    assert job_str("PADDLE_TRAINER_ENDPOINTS") is None


def test_a_batch_script_is_no_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "4711"}
    say(monkeypatch, {**alone, "SLURM_JOB_NODELIST": "rack[07-08]"})
    assert job_str("PADDLE_TRAINER_ENDPOINTS") is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[003-5,9]", "n003"),
        ("r[1-2]c[07,9]x,z", "r1c07x"),
    ],
)
def test_the_first_of_slurms_nodes(nodes: str, first: str) -> None:
    assert first_of_nodes(nodes) == first


def test_scripts_find_fluids_variables(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os; print(os.environ['PADDLE_TRAINER_ENDPOINTS'])")
    shown = refluid("run", str(script), environment={**os.environ, **TORCHRUN}, check=True)
    assert shown.stdout.split() == ["10.0.0.1:901,trainer-1:901"]


def as_torchrun(port: int) -> Callable[[int], dict[str, str]]:
    """What torchrun tells trainers of this machine, in the place of Fluid's variables."""
    where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    silent = dict.fromkeys((*FLUIDS, "PADDLE_CURRENT_ENDPOINT"), "")
    return lambda rank: {**silent, **where, "RANK": str(rank)}


def summed() -> tuple[int, float]:
    """The number of processes of a dygraph job, and the mean of their numbers."""
    with fluid.dygraph.guard():
        strategy = fluid.dygraph.prepare_context()
        layer = fluid.dygraph.Linear(1, 1)
        parallel = fluid.dygraph.DataParallel(layer, strategy)
        rank = fluid.dygraph.to_variable(np.full((1, 1), strategy.local_rank, "float32"))
        loss = parallel.scale_loss(fluid.layers.reduce_mean(parallel(rank)))
        loss.backward()
        parallel.apply_collective_grads()
        return strategy.nranks, float(layer.weight.gradient().ravel()[0])


def test_layers_train_together_under_torchrun(tmp_path: Path) -> None:
    found = as_trainers(2, summed, folder=tmp_path, of_rank=as_torchrun(free_port(2)))
    assert found == [(2, 0.5), (2, 0.5)]
