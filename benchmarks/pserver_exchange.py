"""A pull and a push of rows over servers that are processes, beside the tables' own arithmetic.

    python benchmarks/pserver_exchange.py
    python benchmarks/pserver_exchange.py --servers 1 --ids 100000 --width 64

Both are measured in turns on one thread: wall time, and CPU time of this process and the servers'.
"""

from __future__ import annotations

import argparse
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

        return divided(servers=self.servers, trainers=len(WAYS), width=self.width)


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


def measure(load: Load, repeats: int) -> dict[str, Times]:
    """Pull and push by each way, and the tables alone, in turns."""
    batches, value = load.draws(), load.value()
    # Each way has ids of its own in a turn: servers remember where those of their last calls are.
    calls: dict[str, tuple[int, Callable[[torch.Tensor], Any]]]
    calls = {"tables alone": (0, Alone(load, value))}
    with servers(load) as (addresses, processes):
        clients = [_connected(load, addresses, number) for number in range(len(WAYS))]
        for number, (way, client) in enumerate(zip(WAYS, clients, strict=True)):
            first = number * _BATCHES // len(WAYS)
            calls[f"pull {way}"] = first, partial(client.rows, "emb")
            calls[f"push {way}"] = first, partial(_push, client, value)
        found = {name: Times() for name in calls}
        for number in range(repeats + _SETTLED):
            for name, (first, call) in calls.items():
                ids = batches[(first + number) % _BATCHES]
                _timed(found[name], partial(call, ids), processes)
        for client in clients:
            client.leave()
    return found


def _connected(load: Load, addresses: list[str], number: int) -> Any:
    """A trainer that calls servers in one of the ways."""
    from refluid.core import flags
    from refluid.pserver.calling import Servers
    from refluid.pserver.table_client import TableClient

    client = TableClient(load.split().layout, number)
    client.servers = Servers(addresses, 20.0, enter=client._enter_one)
    flags.set_flags(list(WAYS.values())[number])
    client.enter()  # it keeps the connections
    return client


def _push(client: Any, value: torch.Tensor, ids: torch.Tensor) -> None:
    from refluid.core.selected_rows import SelectedRows

    client.push({"emb@GRAD": SelectedRows(ids, HEIGHT, value)})


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


def told(load: Load, repeats: int) -> str:
    """What was measured, in a few lines."""
    measured, bandwidth = measure(load, repeats), copying()
    found = {name: one.medians() for name, one in measured.items()}
    lines = [f"{load.ids} ids x {load.width}, {load.servers} servers"]
    for name, (wall, own, _) in found.items():
        lines.append(f"  {name}: {wall:.2f} ms, CPU {own:.2f} ms of the trainer's")
    alone = found["tables alone"][0]
    for way in WAYS:
        for name in (f"pull {way}", f"push {way}"):
            rows = 1000 * load.ids / measured[name].processor()
            share = rows * 4 * load.width / bandwidth
            lines.append(
                f"  {name}: {rows / 1e6:.1f} million rows/s of a core, all processes counted: "
                f"{100 * share:.1f}% of a copy ({bandwidth / 1e9:.1f} GB/s)"
            )
        wall = found[f"pull {way}"][0] + found[f"push {way}"][0]
        lines.append(
            f"  pull and push {way}: {wall:.2f} ms, {wall / alone:.2f} of the tables alone"
        )
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ids", type=int, default=Load.ids)
    options.add_argument("--width", type=int, default=Load.width)
    options.add_argument("--servers", type=int, default=Load.servers)
    options.add_argument("--repeats", type=int, default=60)
    options.add_argument("--serve", type=int, help="be that server of a measurement")
    given = options.parse_args()
    load = Load(given.ids, given.width, given.servers)
    if given.serve is not None:
        serve(load, given.serve)
        return
    torch.set_num_threads(1)
    print(told(load, given.repeats))


if __name__ == "__main__":
    main()
