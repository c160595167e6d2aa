"""A fleet's training to which something happens: `refluid launch .. benchmarks/faulted.py FOLDER`.

Each trainer appends a line for each step to FOLDER/RANK.steps: its number and the loss. It leaves
its process id in FOLDER/RANK.pid, and goes on from the last checkpoint in FOLDER/kept.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.collective.saving.checkpoints import Checkpointing
from refluid.core.random import set_states
from refluid.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from refluid.fluid.incubate.fleet.collective import fleet

STEPS, EVERY, ROWS = 60, 5, 8
PAUSE = 0.03


def main() -> None:
    folder = Path(sys.argv[1])
    fleet.init(PaddleCloudRoleMaker(is_collective=True))
    rank = fleet.worker_index()
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    x, y = fluid.data("x", [None, 16], "float32"), fluid.data("y", [None, 1], "float32")
    hidden = fluid.layers.dropout(fluid.layers.fc(x, 32, act="tanh"), 0.2)
    loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01)).minimize(loss)
    executor = fluid.Executor()
    set_states([("cpu", torch.Generator().manual_seed(7 + rank).get_state())])
    executor.run(fluid.default_startup_program())
    kept = Checkpointing(folder / "kept", fleet.main_program, every=EVERY)
    kept.resume()
    while kept.step < STEPS:
        draws = np.random.default_rng([kept.step, rank])
        fed = draws.standard_normal((ROWS, 16)).astype("float32")
        feed = {"x": fed, "y": fed[:, :1]}
        (value,) = executor.run(fleet.main_program, feed=feed, fetch_list=[loss])
        time.sleep(PAUSE)
        kept.after_step()
        with (folder / f"{rank}.steps").open("a") as file:
            file.write(f"{kept.step} {float(np.mean(value)).hex()}\n")


if __name__ == "__main__":
    main()
