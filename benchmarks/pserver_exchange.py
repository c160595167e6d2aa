"""A pull and a push of rows over servers that are processes, beside the tables' own arithmetic.

    python benchmarks/pserver_exchange.py
    python benchmarks/pserver_exchange.py --servers 1 --ids 100000 --width 64
    python benchmarks/pserver_exchange.py --bind    # every process to one core

Both are measured in turns on one thread: wall time, and CPU time of this process and the servers'.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import psutil
import torch

HEIGHT = 1_000_001
_BATCHES = 16
_ALONE, _APART, _IN_ONE = "tables alone", "pull, and push", "pull and push in one call"
_SETTLED = _BATCHES


# How servers are called, and the flags that say so.
WAYS = {
    "by TCP": {"FLAGS_refluid_near_sockets": False},
    "by near sockets": {"FLAGS_refluid_near_sockets": True, "FLAGS_refluid_near_memory": False},
    "by memory": {"FLAGS_refluid_near_sockets": True, "FLAGS_refluid_near_memory": True},
}


@dataclass(frozen=True)
class Load:
    """What is exchanged: so many ids of rows so wide, over so many servers."""

    ids: int = 26_000
    width: int = 10
    servers: int = 2

    def draws(self) -> list[torch.Tensor]:
        """Ids of several batches: of one alone processors and caches would know the order."""
        draws = np.random.RandomState(0)
        return [torch.from_numpy(draws.randint(0, HEIGHT, self.ids)) for _ in range(_BATCHES)]

    def value(self) -> torch.Tensor:
        """A gradient of a batch's rows."""
        return torch.ones(self.ids, self.width)

    def split(self) -> Any:
        """The program with the table, split for the servers."""
        from tests.pserver.tables import divided

        return divided(servers=self.servers, trainers=2 * len(WAYS), width=self.width)


@dataclass
class Times:
    """What one way takes: milliseconds of the wall, of this process's CPU, and of the servers'."""

    wall: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)

    def medians(self) -> tuple[float, float, float]:
        """Each one's, without the first few."""
        kept = (self.wall, self.own, self.served)
        wall, own, served = (statistics.median(one[_SETTLED:]) for one in kept)
        return wall, own, served

    def processor(self) -> float:
        """Milliseconds of all processes' CPU: the mean, for servers' clocks are coarse."""
        count = len(self.own) - _SETTLED
        return (sum(self.own[_SETTLED:]) + sum(self.served[_SETTLED:])) / count


def serve(load: Load, number: int) -> None:
    """One server, at a port that it prints, until nobody writes to it any more."""
    import refluid.fluid as fluid
    from refluid.pserver.server_making import table_server
    from refluid.pserver.service import Service
    from refluid.runtime.allocator import keep_freed_blocks

    fluid.set_flags({"FLAGS_refluid_near_sockets": True})  # trainers choose
    keep_freed_blocks()  # as a server's program does
    torch.set_num_threads(1)
    parts, scope = load.split(), fluid.Scope()
    name = parts.layout.servers[number]
    fluid.Executor().run(parts.startup(name), scope=scope)
    service = Service(table_server(parts.program(name), parts.layout, scope), "127.0.0.1:0")
    service.start()
    print(service.port, flush=True)
    sys.stdin.read()
    service.stop(0.0)


@contextmanager
def servers(load: Load) -> Iterator[tuple[list[str], list[psutil.Process]]]:
    """Addresses of servers in processes of their own, and these."""
    told = ["--ids", str(load.ids), "--width", str(load.width), "--servers", str(load.servers)]
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--serve", str(number), *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(load.servers)
    ]
    try:
        addresses = [f"127.0.0.1:{int(one.stdout.readline())}" for one in started if one.stdout]
        yield addresses, [psutil.Process(one.pid) for one in started]
    finally:
        for one in started:
            one.communicate(timeout=30)


def bind(processes: list[psutil.Process]) -> None:
    """Binds this process to the first core, and servers one after the other to each, from the last
    on: no time goes by while one process waits behind another and a core is idle."""
    cores = sorted(os.sched_getaffinity(0))
    for number, process in enumerate(processes):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {cores[-1 - number % len(cores)]})
    for thread in psutil.Process().threads():
        os.sched_setaffinity(thread.id, {cores[0]})


def measure(load: Load, repeats: int, *, bound: bool = False) -> dict[str, dict[str, Times]]:
    """By what is compared, what it takes, in turns with the tables alone.

    Each way has its time: no trainer speaks several, whose buffers would drive out each other's.
    """
    alone, batches = Alone(load, load.value()), load.draws()
    found: dict[str, dict[str, Times]] = {}
    with servers(load) as (addresses, processes):
        if bound:
            bind(processes)
        trainers = [Trainer(load, addresses, number) for number in range(2 * len(WAYS))]
        for way, apart, together in zip(WAYS, trainers[::2], trainers[1::2], strict=True):
            pairs = {f"pull {way}": apart.pull, f"push {way}": apart.push}
            for name, own in ((_APART, pairs), (_IN_ONE, {f"{_IN_ONE} {way}": together.step})):
                calls: dict[str, Callable[[int], Any]]
                calls = {_ALONE: lambda number: alone(batches[number % _BATCHES]), **own}
                times = found[f"{name} {way}"] = {call: Times() for call in calls}
                for number in range(repeats + _SETTLED):
                    for call, does in calls.items():
                        _timed(times[call], partial(does, number), processes)
        for trainer in trainers:
            trainer.client.leave()
    return found


class Trainer:
    """One that calls servers: two for each way.

    Each has ids of its own in a turn: servers remember where those of their last calls are.
    """

    def __init__(self, load: Load, addresses: list[str], number: int) -> None:
        self._batches, self._value = load.draws(), load.value()
        self._first = number * _BATCHES // (2 * len(WAYS))
        self.client = _connected(load, addresses, number)

    def _ids(self, number: int) -> torch.Tensor:
        return self._batches[(self._first + number) % _BATCHES]

    def _gradient(self, number: int) -> dict[str, Any]:
        from refluid.core.selected_rows import SelectedRows

        return {"emb@GRAD": SelectedRows(self._ids(number), HEIGHT, self._value)}

    def pull(self, number: int) -> None:
        """The rows of a step."""
        self.client.rows("emb", self._ids(number))

    def push(self, number: int) -> None:
        """The gradient of a step."""
        self.client.push(self._gradient(number))

    def step(self, number: int) -> None:
        """The gradient of a step, and the rows of the next: what synchronous training does."""
        following = self._ids(number + 1)
        _, rows = self.client.push_and_pull(self._gradient(number), {"emb": following})
        rows["emb"].of(following)


def _connected(load: Load, addresses: list[str], number: int) -> Any:
    """A trainer that calls servers in one of the ways."""
    from refluid.core import flags
    from refluid.pserver.calling import Servers
    from refluid.pserver.table_client import TableClient

    client = TableClient(load.split().layout, number)
    client.servers = Servers(addresses, 20.0, enter=client._enter_one)
    flags.set_flags(list(WAYS.values())[number // 2])
    client.enter()  # it keeps the connections
    return client


class Alone:
    """The same arithmetic on one table in this process, without servers."""

    def __init__(self, load: Load, value: torch.Tensor) -> None:
        import refluid.fluid as fluid
        from refluid.pserver.server_making import table_server

        parts = Load(load.ids, load.width, 1).split()
        name, scope = parts.layout.servers[0], fluid.Scope()
        fluid.Executor().run(parts.startup(name), scope=scope)
        self.tables = table_server(parts.program(name), parts.layout, scope).tables
        self.value = value

    def __call__(self, ids: torch.Tensor) -> None:
        from refluid.kernels.rows.ids import merge_ids, unique_ids
        from refluid.kernels.rows.lookup import look_up

        table = self.tables.sparse["emb"]
        own, inverse = unique_ids(ids)
        look_up(table.look_up(own), inverse)
        table.update(*merge_ids(ids, self.value), self.tables.dense.value)


def _timed(times: Times, call: Callable[[], Any], processes: list[psutil.Process]) -> None:
    before = sum(sum(one.cpu_times()[:2]) for one in processes)
    start, cpu = time.perf_counter(), time.process_time()
    call()
    times.wall.append(1000 * (time.perf_counter() - start))
    times.own.append(1000 * (time.process_time() - cpu))
    times.served.append(1000 * (sum(sum(one.cpu_times()[:2]) for one in processes) - before))


def copying() -> float:
    """Bytes that one core copies in a second, of memory that no cache holds: read and written."""
    source = torch.ones(2**26, dtype=torch.uint8)
    target = torch.empty_like(source)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return len(source) / statistics.median(times)


def told(load: Load, repeats: int, *, bound: bool) -> str:
    """What was measured, in a few lines."""
    measured, bandwidth = measure(load, repeats, bound=bound), copying()
    lines = [f"{load.ids} ids x {load.width}, {load.servers} servers{', bound' * bound}"]
    for name, calls in measured.items():
        found = {call: times.medians() for call, times in calls.items()}
        for call, (wall, own, _) in found.items():
            lines.append(f"  {call}: {wall:.2f} ms, CPU {own:.2f} ms of the trainer's")
        for call in (one for one in found if one != _ALONE and name.startswith(_APART)):
            rows = 1000 * load.ids / calls[call].processor()
            share = rows * 4 * load.width / bandwidth
            lines.append(
                f"  {call}: {rows / 1e6:.1f} million rows/s of a core, all processes counted: "
                f"{100 * share:.1f}% of a copy ({bandwidth / 1e9:.1f} GB/s)"
            )
        alone = found.pop(_ALONE)[0]
        wall = sum(one for one, _, _ in found.values())
        lines.append(f"  {name}: {wall:.2f} ms, {wall / alone:.2f} of the tables alone")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ids", type=int, default=Load.ids)
    options.add_argument("--width", type=int, default=Load.width)
    options.add_argument("--servers", type=int, default=Load.servers)
    options.add_argument("--repeats", type=int, default=60)
    options.add_argument("--bind", action="store_true", help="every process to one core")
    options.add_argument("--serve", type=int, help="be that server of a measurement")
    given = options.parse_args()
    load = Load(given.ids, given.width, given.servers)
    if given.serve is not None:
        serve(load, given.serve)
        return
    torch.set_num_threads(1)
    print(told(load, given.repeats, bound=given.bind))


if __name__ == "__main__":
    main()
