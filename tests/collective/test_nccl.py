"""Trainers with a GPU each, whose gradients go by NCCL, train as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from tests.collective.jobs import as_trainers
from tests.collective.networks import batches, built, parameters, share
from tests.collective.training import OPTIMIZERS

pytestmark = pytest.mark.gpu


def train_on_gpus(lanes: int) -> tuple[str, dict[str, Any]]:
    """How this trainer reaches the others, and what it learned, on the GPU of its number."""
    job = job_of_environment()
    rank, size = (job.rank, job.size) if job else (0, 1)
    main, startup, loss = built(OPTIMIZERS["momentum"], seed=3 + rank)
    strategy, place = fluid.BuildStrategy(), fluid.CUDAPlace(rank)
    strategy.num_trainers, strategy.trainer_id = size, rank
    strategy.nccl_comm_num = lanes
    executor = fluid.Executor(place)
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        program = fluid.CompiledProgram(main).with_data_parallel(
            loss.name, build_strategy=strategy, places=[place]
        )
        for batch in batches():
            executor.run(program, feed=share(batch, rank, size), fetch_list=[loss])
        reached: Any = program._replicated
        member = reached.group.member(0)._inner if size > 1 else None
        return type(getattr(member, "_inner", member)).__name__, parameters(main)


@pytest.mark.parametrize("lanes", [1, 2])
def test_trainers_on_gpus_are_as_one(lanes: int, tmp_path: Path) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    _, wanted = train_on_gpus(lanes)
    for found in as_trainers(2, train_on_gpus, lanes, folder=tmp_path):
        assert isinstance(found, tuple), found
        assert found[0] == "ByNccl"
        for name, value in wanted.items():
            np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)
