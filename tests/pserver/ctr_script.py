"""A click model that a fleet with servers trains on a dataset; run in each of its processes."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

import refluid.fluid as fluid
from refluid.fluid.incubate.fleet.base import role_maker
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy_factory as factory,
)
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

SLOTS, WIDTH, HEIGHT = 3, 4, 500


def network() -> tuple[list[Any], Any, Any]:
    slots = [fluid.data(f"s{i}", [None, 1], "int64", lod_level=1) for i in range(SLOTS)]
    dense = fluid.data("dense", [None, 2], "float32")
    label = fluid.data("label", [None, 1], "int64")
    parts = []
    for one in slots:
        attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform(-0.1, 0.1))
        rows = fluid.embedding(one, [HEIGHT, WIDTH], is_sparse=True, param_attr=attr)
        parts.append(fluid.layers.sequence_pool(fluid.layers.squeeze(rows, [1]), "sum"))
    joined = fluid.layers.concat([*parts, dense], 1)
    hidden = fluid.layers.fc(joined, 8, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    return [*slots, dense, label], loss, predict


def write_files(folder: str, files: int, rows: int) -> list[str]:
    """Samples whose label follows from their ids."""
    draws = np.random.RandomState(5)
    paths = []
    for number in range(files):
        lines = []
        for _ in range(rows):
            ids = draws.randint(0, HEIGHT, SLOTS)
            dense = draws.rand(2).round(3)
            label = int(ids.sum() % HEIGHT < HEIGHT // 2) if ids[0] % 7 else 1
            slots = " ".join(f"1 {one}" for one in ids)
            lines.append(f"{slots} 2 {dense[0]} {dense[1]} 1 {label}")
        paths.append(os.path.join(folder, f"part-{number}"))
        with open(paths[-1], "w") as file:
            file.write("\n".join(lines) + "\n")
    return paths


def main(mode: str, folder: str) -> None:
    fleet.init(role_maker.PaddleCloudRoleMaker())
    made = getattr(factory.DistributedStrategyFactory, f"create_{mode}_strategy")
    strategy = made(update_frequency=5) if mode == "geo" else made()
    strategy.get_program_config().min_block_size = 16
    variables, loss, predict = network()
    optimizer = fluid.optimizer.Adam(0.02, lazy_mode=True)
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    files = sorted(one for one in os.listdir(folder) if one.startswith("part-"))
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var(variables)
    dataset.set_batch_size(20)
    dataset.set_filelist(fleet.split_files([os.path.join(folder, one) for one in files]))
    for _ in range(3):
        exe.train_from_dataset(fleet.main_program, dataset)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        saved = os.path.join(folder, "saved")
        names = [one.name for one in variables[:-1]]
        fleet.save_inference_model(exe, os.path.join(folder, "model"), names, [predict])
        fleet.save_persistables(exe, saved)
        total = np.zeros(1)
    else:
        total = np.zeros(1)
    fleet.all_reduce_worker(np.ones(1) * (fleet.worker_index() + 1), total)
    told = {"total": float(total[0]), "first": fleet.is_first_worker()}
    with open(os.path.join(folder, f"done-{fleet.worker_index()}"), "w") as file:
        json.dump(told, file)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
