"""A trainer of a test to whom something happens: `python -m tests.collective.faulty ...`."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment, joined
from refluid.collective.saving.checkpoints import Checkpointing
from tests.collective.networks import batches, built, share
from tests.collective.training import OPTIMIZERS

STEPS = 8


def main() -> None:
    """Trains; writes losses, and the error, to FOLDER/RANK.json."""
    given = argparse.ArgumentParser()
    given.add_argument("folder", type=Path)
    given.add_argument("--steps", type=int, default=STEPS)
    given.add_argument("--checkpoints", action="store_true")
    given.add_argument("--kill", type=int, help="trainer 1 kills itself after that step, once")
    given.add_argument("--stop", type=int, help="trainer 1 stops itself after that step")
    asked = given.parse_args()
    job = job_of_environment()
    assert job is not None
    losses: list[float] = []
    found: dict[str, Any] = {"losses": losses}
    try:
        joined(job)
        for number, loss in _trained(asked, job):
            losses.append(loss)
            (asked.folder / f"{job.rank}.step").write_text(str(number))
            if job.rank == 1 and not (asked.folder / "happened").exists():
                _happen(asked, number)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    (asked.folder / f"{job.rank}.json").write_text(json.dumps(found))
    os._exit(1 if "error" in found else 0)


def _happen(asked: Any, number: int) -> None:
    for how, after in ((signal.SIGKILL, asked.kill), (signal.SIGSTOP, asked.stop)):
        if after == number:
            (asked.folder / "happened").write_text(str(number))
            os.kill(os.getpid(), how)


def _trained(asked: Any, job: Any) -> Any:
    main, startup, loss = built(OPTIMIZERS["adam"], seed=3 + job.rank)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = job.size, job.rank
    program = fluid.CompiledProgram(main).with_data_parallel(
        loss.name, strategy, places=[fluid.CPUPlace()]
    )
    executor = fluid.Executor()
    executor.run(startup)
    kept = None
    if asked.checkpoints:
        kept = Checkpointing(asked.folder / "kept", program, every=2)
        kept.resume()
    step = kept.step if kept else 0
    data = batches(STEPS)
    while step < asked.steps:
        fed = share(data[step % STEPS], job.rank, job.size)
        (value,) = executor.run(program, feed=fed, fetch_list=[loss])
        step += 1
        if kept:
            kept.after_step()
        yield step, float(np.mean(value))


if __name__ == "__main__":
    main()
