"""What servers of tables cost: a pull and a push beside the table's own arithmetic, and training.

    python benchmarks/pserver.py
    python benchmarks/pserver.py --modes async sync --batches 60

The network is a click model: 26 slots that share a table of 1,000,001 rows of 10, 13 dense
features, three layers of 400, batches of 1000. Trainers and servers are processes of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
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

IDS, WIDTH, SLOTS, HEIGHT, BATCH = 26_000, 10, 26, 1_000_001, 1000


def ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return found


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
    strategy = getattr(StrategyFactory, f"create_{mode}_strategy")()
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


def job(mode: str, count: int, servers: int = 1, workers: int = 2) -> tuple[float, float]:
    """Samples per second of all workers, and per CPU second of a worker."""
    addresses = [f"127.0.0.1:{port}" for port in ports(servers)]
    with tempfile.TemporaryDirectory() as folder:
        out, started = f"{folder}/told", []
        for number in range(servers + workers):
            role = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(number - servers)}
            if number < servers:
                host, _, port = addresses[number].rpartition(":")
                role = {"TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}
            role |= {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(addresses)}
            role |= {"PADDLE_TRAINERS_NUM": str(workers)}
            command = [sys.executable, __file__, "--work", mode, str(count), out]
            started.append(subprocess.Popen(command, env={**os.environ, **role}))
        codes = [one.wait(600) for one in started]
        if any(codes):
            raise SystemExit(f"{mode}: processes ended with {codes}")
        told = [json.loads(Path(f"{out}.{number}").read_text()) for number in range(workers)]
    samples = count * BATCH
    rate = workers * samples / max(one["seconds"] for one in told)
    return rate, samples / statistics.mean(one["cpu"] for one in told)


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


# -- a pull and a push --------------------------------------------------------


def exchange(repeats: int) -> tuple[float, float, float]:
    """Milliseconds of pull and push of 26,000 ids over two servers; of the tables alone; GB/s.

    Servers are threads of this process; both sides are measured in turns.
    """
    from refluid.core.selected_rows import SelectedRows
    from refluid.kernels.rows.ids import merge_ids, unique_ids
    from refluid.kernels.rows.lookup import look_up
    from tests.pserver.tables import cluster, divided

    ids = torch.from_numpy(np.random.RandomState(0).randint(0, HEIGHT, IDS))
    value = torch.ones(IDS, WIDTH)
    with cluster(divided(servers=2, width=WIDTH)) as found:
        client = found.client()
        table = found.servers[0].tables.sparse["emb"]

        def over_servers() -> None:
            client.rows("emb", ids)
            client.push({"emb@GRAD": SelectedRows(ids, HEIGHT, value)})

        def tables_alone() -> None:
            own, inverse = unique_ids(ids)
            look_up(table.look_up(own), inverse)
            table.update(*merge_ids(ids, value), found.servers[0].tables.dense.value)

        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(repeats):
            for kept, call in zip(times, (over_servers, tables_alone), strict=True):
                start = time.perf_counter()
                call()
                kept.append(1000 * (time.perf_counter() - start))
    served, own = (statistics.median(one[3:]) for one in times)
    return served, own, 3 * IDS * WIDTH * 4 / own / 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--batches", type=int, default=60)
    options.add_argument("--repeats", type=int, default=60)
    options.add_argument("--modes", nargs="*", default=["sync", "async", "half_async", "geo"])
    options.add_argument("--work", nargs=3, metavar=("MODE", "BATCHES", "FILE"))
    given = options.parse_args()
    if given.work:
        work(given.work[0], int(given.work[1]), given.work[2])
        return
    torch.set_num_threads(1)
    served, own, speed = exchange(given.repeats)
    print(f"pull and push of {IDS} ids x {WIDTH}: over 2 servers {served:.2f} ms, tables alone "
          f"{own:.2f} ms, ratio {served / own:.2f} ({speed:.2f} GB/s of rows)")  # fmt: skip
    rate, per_cpu = alone(given.batches)
    print(f"alone: {rate:.0f} samples/s, {per_cpu:.0f} per CPU second")
    for mode in given.modes:
        rate, per_cpu = job(mode, given.batches)
        print(f"{mode}: {rate:.0f} samples/s of 2 workers, {per_cpu:.0f} per worker CPU second")


if __name__ == "__main__":
    main()
