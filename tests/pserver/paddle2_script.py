"""A click model trained by a fleet of Paddle 2; run in each of its processes, or in one alone."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

import refluid.paddle as paddle
from refluid.paddle.distributed import fleet

HEIGHT, STEPS, BATCH = 50, 12, 8


def train(exe: Any, loss: Any) -> list[float]:
    """The losses of all ids, of this worker's share of batches, and of all ids again, when all
    workers had theirs."""
    draws, whole = np.random.RandomState(0), np.arange(HEIGHT).reshape(-1, 1)
    given = [whole]
    for _ in range(STEPS):
        drawn = draws.randint(0, HEIGHT, (2 * BATCH, 1))
        here = slice(fleet.worker_index() * BATCH, (fleet.worker_index() + 1) * BATCH)
        given.append(drawn[here if fleet.worker_num() > 1 else slice(None)])

    def step(ids: Any) -> float:
        feed = {"ids": ids, "label": (ids % 3).astype("float32")}
        return float(exe.run(feed=feed, fetch_list=[loss])[0])

    losses = [*map(step, given)]
    fleet.barrier_worker()
    return [*losses, step(whole)]


def save(exe: Any, folder: str, predicted: Any) -> None:
    """Writes all that trains and a model; with servers what is dense too, and reads all back."""
    saved = os.path.join(folder, "saved")
    fleet.save_persistables(exe, saved)
    fleet.save_inference_model(exe, os.path.join(folder, "model"), ["ids"], [predicted])
    if fleet.server_num():
        program, dense = paddle.static.default_main_program(), os.path.join(folder, "dense")
        fleet.save_dense_params(exe, dense, paddle.static.global_scope(), program)
        fleet.load_model(saved)


def main(kind: str, folder: str) -> None:
    paddle.enable_static()
    fleet.init()
    strategy = fleet.DistributedStrategy()
    if kind != "sync":
        strategy.a_sync = True
    if kind == "geo":
        strategy.a_sync_configs = {"k_steps": 3}
    paddle.seed(3)
    ids = paddle.static.data("ids", [None, 1], "int64")
    label = paddle.static.data("label", [None, 1], "float32")
    rows = paddle.static.nn.sparse_embedding(
        ids,
        [HEIGHT, 4],
        entry=paddle.distributed.CountFilterEntry(2) if kind == "async" else None,
        param_attr=paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Constant(0.1)),
    )
    weight = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(0.2))
    predicted = paddle.static.nn.fc(rows, 1, weight_attr=weight)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(predicted, label))
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.05), strategy)
    optimizer.minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = paddle.static.Executor(paddle.CPUPlace())
    fleet.init_worker()
    exe.run(paddle.static.default_startup_program())
    losses = train(exe, loss)
    fleet.barrier_worker()
    if fleet.is_first_worker():
        save(exe, folder, predicted)
    told = {
        "losses": losses,
        "mean": fleet.all_reduce(np.array([fleet.worker_index() + 1.0]), "mean").tolist(),
        "right": fleet.metrics.acc(np.array([fleet.worker_index()]), np.array([2])),
        "sum": fleet.util.all_reduce(np.array([fleet.worker_index() + 1.0])).tolist(),
        "most": fleet.util.all_reduce(fleet.worker_index(), "max").tolist(),
        "names": fleet.util.all_gather(f"worker {fleet.worker_index()}"),
        "files": fleet.util.get_file_shard(["a", "b", "c"]),
    }
    fleet.util.barrier()
    if kind == "async" and fleet.server_num():
        fleet.shrink()
    with open(os.path.join(folder, f"done-{fleet.worker_index()}"), "w") as file:
        json.dump(told, file)
    fleet.stop_worker()


if __name__ == "__main__":
    main(*sys.argv[1:])
