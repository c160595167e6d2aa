"""What each process of `delays_served.py` runs: a server of tables, a trainer, or one alone.

The network is that of `predict_delays.py`, its embeddings in two tables that all slots share.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    StrategyFactory,
    fleet,
)

SLOTS = ("carrier", "origin", "dest", "hour", "month", "weekday", "date", "tailnum", "flight")
MODES = {
    "sync": StrategyFactory.create_sync_strategy,
    "half-async": StrategyFactory.create_half_async_strategy,
    "async": StrategyFactory.create_async_strategy,
    "geo": lambda: StrategyFactory.create_geo_strategy(20),
}
WIDTH, BATCH, TRAINERS = 10, 512, 2
layers = fluid.layers


def build(height: int) -> tuple[list[Any], Any, Any]:
    """The variables of a flight, the probability that it is late, and the loss."""
    flight = [layers.data(name, [1], dtype="int64") for name in SLOTS]
    label = layers.data("late", [1], dtype="int64")

    def rows(name: str, width: int) -> list[Any]:
        first = fluid.initializer.Normal(0.0, 0.05)
        table = fluid.ParamAttr(name=name, initializer=first)
        return [
            layers.embedding(slot, [height, width], is_sparse=True, param_attr=table)
            for slot in flight
        ]

    hidden = layers.concat(rows("deep", WIDTH), axis=1)
    for size in (128, 64):
        hidden = layers.fc(hidden, size, act="relu")
    chance = layers.softmax(layers.sums([layers.fc(hidden, 2), *rows("wide", 2)]))
    return [*flight, label], chance, layers.mean(layers.cross_entropy(chance, label))


def dataset_of(variables: list[Any], batch: int) -> Any:
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(variables)
    dataset.set_batch_size(batch)
    dataset.set_thread(1)
    return dataset


def main(mode: str, folder: Path) -> None:
    told = json.loads((folder / "job.json").read_text())
    fluid.default_startup_program().random_seed = 1
    variables, chance, loss = build(told["height"])
    parts = [str(one) for one in sorted(folder.glob("part-*"))]
    exe = fluid.Executor(fluid.CPUPlace())
    optimizer = fluid.optimizer.Adam(told["rate"], lazy_mode=True)
    saved, names = str(folder / f"model-{mode}"), list(SLOTS)
    if mode == "alone":
        optimizer.minimize(loss)
        exe.run(fluid.default_startup_program())
        dataset = dataset_of(variables, BATCH)
        dataset.set_filelist(parts)
        for _ in range(told["epochs"]):
            exe.train_from_dataset(fluid.default_main_program(), dataset)
        fluid.io.save_inference_model(saved, names, [chance], exe)
        return
    fleet.init(role_maker.PaddleCloudRoleMaker())
    fleet.distributed_optimizer(optimizer, MODES[mode]()).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe.run(fleet.startup_program)
    dataset = dataset_of(variables, BATCH // TRAINERS)
    dataset.set_filelist(fleet.split_files(parts))
    for _ in range(told["epochs"]):
        exe.train_from_dataset(fleet.main_program, dataset)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        fleet.save_inference_model(exe, saved, names, [chance])
    fleet.stop_worker()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
