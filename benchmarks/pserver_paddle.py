"""One process of Paddle 2.6.2's own parameter server training the click model: run by its Python.

    TRAINING_ROLE=PSERVER .. python benchmarks/pserver_paddle.py async 60 OUT

`benchmarks/pserver.py --peer PYTHON` starts a server and two trainers of it, beside refluid's.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.distributed.fleet as fleet

WIDTH, SLOTS, HEIGHT, BATCH = 10, 26, 1_000_001, 1000
_SETTLED = 8
# Of a_sync_configs: after how many steps GEO exchanges.
_STEPS = {"async": 0, "geo": 10}


def network() -> Any:
    """The click model's loss."""
    dense = paddle.static.data("dense", [None, 13], "float32")
    slots = [paddle.static.data(f"C{i}", [None, 1], "int64") for i in range(SLOTS)]
    label = paddle.static.data("label", [None, 1], "int64")
    attr = paddle.ParamAttr(name="emb", initializer=paddle.nn.initializer.Uniform())
    rows = [
        paddle.static.nn.embedding(one, [HEIGHT, WIDTH], is_sparse=True, param_attr=attr)
        for one in slots
    ]
    rows = [paddle.reshape(one, [-1, WIDTH]) for one in rows]
    hidden = paddle.concat([*rows, dense], 1)
    for _ in range(3):
        hidden = paddle.static.nn.fc(hidden, 400, activation="relu")
    predict = paddle.static.nn.fc(hidden, 2, activation="softmax")
    loss = paddle.nn.functional.cross_entropy(predict, label, use_softmax=False)
    return paddle.mean(loss)


def batches(count: int, seed: int) -> list[dict[str, Any]]:
    """As those of `benchmarks/pserver.py`."""
    draws, found = np.random.RandomState(seed), []
    for _ in range(count):
        ids = np.minimum(draws.zipf(1.2, (SLOTS, BATCH, 1)) * 7919, 10**15) % HEIGHT
        feed = {f"C{i}": ids[i].astype("int64") for i in range(SLOTS)}
        feed["dense"] = draws.rand(BATCH, 13).astype("float32")
        feed["label"] = draws.randint(0, 2, (BATCH, 1)).astype("int64")
        found.append(feed)
    return found


def main(mode: str, count: int, out: str) -> None:
    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker())
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode != "sync"
    if mode in _STEPS:
        strategy.a_sync_configs = {"k_steps": _STEPS[mode]}
    loss = network()
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.01), strategy)
    optimizer.minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    given = batches(20, fleet.worker_index())
    for feed in given[:_SETTLED]:
        executor.run(paddle.static.default_main_program(), feed=feed)
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        feed = given[number % len(given)]
        executor.run(paddle.static.default_main_program(), feed=feed)
    told = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    Path(f"{out}.{fleet.worker_index()}").write_text(json.dumps(told))
    fleet.stop_worker()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
