"""The least that a pull and a push can take: the work of a trainer and of its busiest server alone.

    python -m benchmarks.exchange_floor

What `pserver_exchange` sends between processes is done in this one, without messages: ids are
dealt, rows looked up by each server and spread, gradients added up and applied. Where each server
has a core they work at the same time, and the trainer before and after them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.pserver_exchange import Alone, Load

_SETTLED = 16
# Of the trainer; and of each server, one after the other.
TRAINERS = "ids dealt", "rows spread", "gradients added up"
SERVERS = "rows looked up", "rows updated"
COPIES = "calls copied by a server"


def measured(load: Load, repeats: int) -> dict[str, float]:
    """Milliseconds of this thread that each part takes, medians; of servers the one with most."""
    from refluid.kernels.rows.dealing import DealtIds, KnownRows, PartialSums

    found: defaultdict[str, list[float]] = defaultdict(list)
    value, owners = load.value(), load.split().layout.owners
    alone, tables = Alone(load, value), [Alone(load, value).tables for _ in range(load.servers)]
    batches = load.draws()
    for number in range(repeats + _SETTLED):
        ids = batches[number % len(batches)]
        _timed(found["the tables alone"], lambda ids=ids: alone(ids))
        dealt: list[float] = []
        made = _timed(dealt, lambda ids=ids: DealtIds(ids.numpy(), owners, load.servers))
        for server in range(load.servers):
            _timed(dealt, lambda: made.ids(server))  # noqa: B023
        found[TRAINERS[0]].append(sum(dealt))
        known, parts = KnownRows(made, load.width, "float32"), defaultdict[str, list[float]](list)
        for server, own in enumerate(tables):
            table, dense = own.sparse["emb"], own.dense.value
            asked = made.ids(server)
            mine = _timed(parts[COPIES], asked.copy)
            wanted = torch.from_numpy(mine)
            rows = _timed(parts[SERVERS[0]], lambda: table.look_up(wanted).numpy())  # noqa: B023
            _timed(parts[TRAINERS[1]], lambda: known.put(server, rows))  # noqa: B023
            sums = PartialSums(made, server, value.numpy())
            out = np.empty(sums.shape, sums.dtype)
            _timed(parts[TRAINERS[2]], lambda: sums.fill(out))  # noqa: B023
            given = _timed(parts[COPIES], lambda: torch.from_numpy(out.copy()))  # noqa: B023
            _timed(parts[SERVERS[1]], lambda: table.update(wanted, given, dense))  # noqa: B023
        for name in TRAINERS[1:]:
            found[name].append(sum(parts[name]))
        for name in (*SERVERS, COPIES):
            found[name].append(sum(parts[name]) / load.servers)
    return {name: statistics.median(one[_SETTLED:]) for name, one in found.items()}


def told(load: Load, repeats: int) -> str:
    """What was measured, in a few lines."""
    parts = measured(load, repeats)
    alone = parts["the tables alone"]
    least = sum(parts[name] for name in (*TRAINERS, *SERVERS, COPIES))
    lines = [f"{load.ids} ids x {load.width}, {load.servers} servers, ms of a thread"]
    lines += [f"  {name}: {time:.2f}, {time / alone:.2f}" for name, time in parts.items()]
    lines.append(f"  a trainer's work and one server's: {least:.2f}, {least / alone:.2f}")
    return "\n".join(lines)


def _timed(times: list[float], call: Callable[[], Any]) -> Any:
    start = time.thread_time()
    given = call()
    times.append(1000 * (time.thread_time() - start))
    return given


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--servers", type=int, default=Load.servers)
    options.add_argument("--repeats", type=int, default=60)
    given = options.parse_args()
    torch.set_num_threads(1)
    print(told(Load(servers=given.servers), given.repeats))


if __name__ == "__main__":
    main()
