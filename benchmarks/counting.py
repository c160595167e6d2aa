"""A job with servers whose updates can be counted: ones are pushed, SGD's rate is 1.

    TRAINING_ROLE=.. PADDLE_..=.. python -m benchmarks.counting FOLDER sync --steps 100

Each step adds -1 to rows that all trainers look up, to a row of the trainer's own, and to a dense
parameter. A trainer tells in FOLDER what it has done: `N.json` after each step, and at its end what
the servers have. Run by the launcher, by `benchmarks/pserver_faults.py`, and by tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.fluid.incubate.fleet.base import role_maker
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    StrategyFactory,
    fleet,
)

MODES = {
    "sync": StrategyFactory.create_sync_strategy,
    "half-async": StrategyFactory.create_half_async_strategy,
    "async": StrategyFactory.create_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(5),
}
HEIGHT, SHARED, OWN = 1000, (1, 500, 999), 100


def network() -> Any:
    """The loss; its gradient is 1 for each number of the rows and of `w`."""
    zero = fluid.initializer.Constant(0.0)
    ids = fluid.data("ids", [None, 1], "int64")
    x = fluid.data("x", [None, 3], "float32")
    attr = fluid.ParamAttr(name="emb", initializer=zero)
    rows = fluid.embedding(ids, [HEIGHT, 4], is_sparse=True, is_distributed=True, param_attr=attr)
    out = fluid.layers.fc(
        x, 1, param_attr=fluid.ParamAttr(name="w", initializer=zero), bias_attr=False
    )
    return fluid.layers.reduce_sum(rows) + fluid.layers.reduce_sum(out)


def tell(path: Path, told: dict[str, Any]) -> None:
    """Whole or not at all, whenever this process is killed."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(told))
    aside.replace(path)


def failing(share: float) -> None:
    """Has the connection break at that share of a server's calls: before it is done, or after."""
    from refluid.pserver.table_server import TableServer

    answer = TableServer.packed_answer

    def breaks(server: Any, message: Any, pack: Any) -> Any:
        if random.random() < share / 2:
            raise ConnectionResetError("broken before the call")
        found = answer(server, message, pack)
        if random.random() < share / 2:
            raise ConnectionResetError("broken after the call")
        return found

    TableServer.packed_answer = breaks  # type: ignore[method-assign]


def train(asked: argparse.Namespace) -> None:
    number = fleet.worker_index()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    ids = np.array([*SHARED, OWN + number])[:, None]
    feed, note = {"ids": ids, "x": np.ones((1, 3), "float32")}, asked.folder / f"{number}.json"
    begun = time.time()
    for step in range(1, asked.steps + 1):
        while step == asked.steps and asked.until is not None and not asked.until.exists():
            time.sleep(0.05)
        exe.run(fleet.main_program, feed=feed, fetch_list=[])
        tell(note, {"steps": step, "moment": time.time(), "begun": begun})
        time.sleep(asked.pause * (asked.slow if number else 1.0))
    link = fleet.main_program._servers.link
    link.flush()
    rows = link.client.rows("emb", torch.from_numpy(ids.ravel()), read_only=True)
    found = {
        "shared": sorted({one for row in rows[:-1].tolist() for one in row}),
        "own": sorted(set(rows[-1].tolist())),
        "dense": sorted(set(link.client.pull()["w"].flatten().tolist())),
    }
    moment = {"moment": time.time(), "begun": begun}
    tell(note, {"steps": asked.steps, "ended": True, **moment, **found})


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("folder", type=Path)
    given.add_argument("mode", choices=MODES)
    given.add_argument("--steps", type=int, default=100)
    given.add_argument("--pause", type=float, default=0.0, help="seconds after each step")
    given.add_argument("--slow", type=float, default=1.0, help="trainers but the first: so often")
    given.add_argument("--failing", type=float, default=0.0, help="share of calls that break")
    given.add_argument("--until", type=Path, help="the last step waits for this file")
    asked = given.parse_args()
    fleet.init(role_maker.PaddleCloudRoleMaker())
    loss, strategy = network(), MODES[asked.mode]()
    strategy.get_program_config().min_block_size = 1
    fleet.distributed_optimizer(fluid.optimizer.SGD(1.0), strategy).minimize(loss)
    if fleet.is_server():
        failing(asked.failing)
        fleet.init_server()
        tell(asked.folder / f"server-{os.getpid()}.json", {"ready": time.time()})
        fleet.run_server()
        return
    fleet.init_worker()
    train(asked)
    fleet.stop_worker()


if __name__ == "__main__":
    main()
