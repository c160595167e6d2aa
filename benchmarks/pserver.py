"""What training with servers of tables reaches; `pserver_exchange.py` has a pull and a push alone.

    python benchmarks/pserver.py
    python benchmarks/pserver.py --modes async sync --batches 60 --rounds 5
    python benchmarks/pserver.py --peer PADDLE_2_6_2/bin/python

The network is a click model: 26 slots that share a table of 1,000,001 rows of 10, 13 dense
features, three layers of 400, batches of 1000. Trainers and servers are processes of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

WIDTH, SLOTS, HEIGHT, BATCH = 10, 26, 1_000_001, 1000
# GEO exchanges every so many steps.
GEO_STEPS = 10
# Ways to wait that Paddle 2.6.2 has too.
_OF_PEER = ("sync", "async", "geo")


def network() -> tuple[Any, Any, Any]:
    """The click model's variables, loss and AUC, in the default programs."""
    import refluid.fluid as fluid

    dense = fluid.data("dense", [None, 13], "float32")
    slots = [fluid.data(f"C{i}", [None, 1], "int64") for i in range(SLOTS)]
    label = fluid.data("label", [None, 1], "int64")
    attr = fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform())
    rows = [
        fluid.layers.embedding(one, [HEIGHT, WIDTH], is_sparse=True, param_attr=attr)
        for one in slots
    ]
    hidden = fluid.layers.concat([*rows, dense], 1)
    for _ in range(3):
        hidden = fluid.layers.fc(hidden, 400, act="relu")
    predict = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(predict, label))
    return [dense, *slots, label], loss, predict


def batches(count: int, seed: int) -> list[dict[str, Any]]:
    """Batches whose ids are as in click logs: few of them often."""
    draws, found = np.random.RandomState(seed), []
    for _ in range(count):
        ids = np.minimum(draws.zipf(1.2, (SLOTS, BATCH, 1)) * 7919, 10**15) % HEIGHT
        feed = {f"C{i}": ids[i].astype("int64") for i in range(SLOTS)}
        feed["dense"] = draws.rand(BATCH, 13).astype("float32")
        feed["label"] = draws.randint(0, 2, (BATCH, 1)).astype("int64")
        found.append(feed)
    return found


# -- one process of a job -----------------------------------------------------


def work(mode: str, count: int, out: str) -> None:
    """A server or a worker, as the environment says; a worker writes what it measured to `out`."""
    import refluid.fluid as fluid
    from refluid.fluid.incubate.fleet.base import role_maker
    from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
        StrategyFactory,
        fleet,
    )

    torch.set_num_threads(1)
    fleet.init(role_maker.PaddleCloudRoleMaker())
    _, loss, _ = network()
    given_steps = (GEO_STEPS,) if mode == "geo" else ()
    strategy = getattr(StrategyFactory, f"create_{mode}_strategy")(*given_steps)
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    given = batches(20, fleet.worker_index())
    fleet.init_worker()
    executor = fluid.Executor()
    executor.run(fleet.startup_program)
    for feed in given[:8]:
        executor.run(fleet.main_program, feed=feed)
    fleet.barrier_worker()
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        executor.run(fleet.main_program, feed=given[number % len(given)])
    told = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    fleet.stop_worker()
    Path(f"{out}.{fleet.worker_index()}").write_text(json.dumps(told))


def job(
    mode: str, count: int, servers: int = 1, workers: int = 2, peer: str | None = None
) -> tuple[float, float]:
    """Samples per second of all workers, and per CPU second of a worker.

    peer: the Python of a Paddle whose own servers are measured instead.
    """
    from refluid.core.ports import free_endpoints

    addresses = free_endpoints(servers)
    ends = free_endpoints(workers)
    common = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(addresses), "OMP_NUM_THREADS": "1"}
    common |= {"PADDLE_TRAINERS_NUM": str(workers), "POD_IP": "127.0.0.1"}
    common |= {"PADDLE_TRAINER_ENDPOINTS": ",".join(ends), "PADDLE_WITH_GLOO": "0"}
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/told"
        program = [sys.executable, __file__, "--work"]
        if peer is not None:
            program = [peer, str(Path(__file__).with_name("pserver_paddle.py"))]
        started = []
        for number, address in enumerate([*addresses, *ends]):
            trains = number >= servers
            role = {"TRAINING_ROLE": "TRAINER" if trains else "PSERVER"}
            role |= {"PADDLE_TRAINER_ID": str(max(0, number - servers))}
            role |= {"PADDLE_PORT": address.rpartition(":")[2], "PADDLE_CURRENT_ENDPOINT": address}
            given: dict[str, Any] = {"env": {**os.environ, **common, **role}}
            if peer is not None:
                given |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen([*program, mode, str(count), out], **given))
        codes = [one.wait(600) for one in started[servers:]]
        for one in started[:servers]:
            if peer is not None:
                one.terminate()  # it outlives its trainers
            codes.append(one.wait(60) if peer is None else 0)
        if any(codes):
            raise JobFailed(f"processes ended with {codes}")
        told = [json.loads(Path(f"{out}.{number}").read_text()) for number in range(workers)]
    samples = count * BATCH
    rate = workers * samples / max(one["seconds"] for one in told)
    return rate, samples / statistics.mean(one["cpu"] for one in told)


class JobFailed(Exception):
    """Not all processes of a job came to their end."""


def alone(count: int) -> tuple[float, float]:
    """The same in one process without servers."""
    import refluid.fluid as fluid

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        _, loss, _ = network()
        fluid.optimizer.SGD(0.01).minimize(loss)
    executor, given = fluid.Executor(), batches(20, 0)
    executor.run(startup)
    for feed in given[:8]:
        executor.run(main, feed=feed)
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        executor.run(main, feed=given[number % len(given)])
    samples = count * BATCH
    return samples / (time.perf_counter() - start), samples / (time.process_time() - cpu)


def medians(found: list[tuple[float, float]]) -> str:
    """What several jobs measured, as a line says it."""
    rate, per_cpu = (statistics.median(one) for one in zip(*found, strict=True))
    return f"{rate:.0f} samples/s of 2 workers, {per_cpu:.0f} per worker CPU second"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=60)
    options.add_argument("--rounds", type=int, default=1, help="times that each job runs, in turns")
    options.add_argument("--modes", nargs="*", default=["sync", "async", "half_async", "geo"])
    options.add_argument("--peer", help="the Python of a Paddle 2.6.2, to be measured in turns")
    options.add_argument("--work", nargs=3, metavar=("MODE", "BATCHES", "FILE"))
    given = options.parse_args()
    if given.work:
        work(given.work[0], int(given.work[1]), given.work[2])
        return
    torch.set_num_threads(1)
    rate, per_cpu = alone(given.batches)
    print(f"alone: {rate:.0f} samples/s, {per_cpu:.0f} per CPU second")
    for mode in given.modes:
        own, peers, failure = [], [], ""
        for _ in range(given.rounds):
            own.append(job(mode, given.batches))
            if given.peer and mode in _OF_PEER and not failure:
                try:
                    peers.append(job(mode, given.batches, peer=given.peer))
                except JobFailed as error:
                    failure = f"fails: {error}"
        print(f"{mode}: {medians(own)}", flush=True)
        if peers or failure:
            print(f"{mode}, Paddle: {failure or medians(peers)}", flush=True)


if __name__ == "__main__":
    main()
