"""What many servers and trainers would reach, by a model fitted to `pserver_exchange.py`.

    python benchmarks/pserver_scaling.py

A call costs a server and its trainer a time each, and a row another one: straight lines through the
CPU times of exchanges of several sizes. Dense parameters cost a server what it takes to copy them
`COPIES` times. Assumed: a trainer computes `STEP` seconds for 1,000 samples of the click model, of
whose 26,000 ids `ROWS` are different; a server works on its tables by one core; links have 25
Gbit/s; trainers wait for nobody (asynchronous), so the slowest of the three limits says how many
steps there are: trainers' own time, servers' time, servers' links.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

from benchmarks.pserver_exchange import Load, Times, copying, measure

BATCH, WIDTH = 1000, 10
# Of the click model in `pserver.py`: seconds of a step without servers, ids of a batch, how many of
# them are different, and numbers of dense parameters.
STEP, IDS, ROWS, DENSE = 1 / 41.1, 26_000, 6_200, 431_202
# A server reads a gradient from the socket, updates by it, copies the slice, and hands it on.
COPIES = 4
LINK = 25e9 / 8
SIZES = (2_600, 26_000, 104_000)
CALLS = ("pull by TCP", "push by TCP")
SERVERS, TRAINERS = (1, 10, 100), (10, 100, 1000)


@dataclass(frozen=True)
class Costs:
    """CPU seconds for a call and a row, of a server and of its trainer; bytes/s of a copy."""

    served_call: float
    served_row: float
    own_call: float
    own_row: float
    copies: float

    def limits(self, servers: int, trainers: int) -> dict[str, float]:
        """Steps per second of all trainers that each limit allows."""
        rows, dense = ROWS / servers, 4 * DENSE / servers
        served = 2 * (self.served_call + rows * self.served_row) + COPIES * dense / self.copies
        own = STEP + 2 * (servers * self.own_call + IDS * self.own_row)
        own += 2 * 4 * DENSE / self.copies
        arriving = rows * (8 + 8 + 4 * WIDTH) + dense
        return {
            "trainers": trainers / own,
            "servers' cores": 1 / served,
            "servers' links": LINK / arriving,
        }


def fitted(found: Mapping[int, Mapping[str, Times]], servers: int, bandwidth: float) -> Costs:
    """Straight lines through what exchanges of several sizes took."""
    sizes = np.array(sorted(found), float)
    lines = []
    for which in ("served", "own"):
        times = []
        for size in sorted(found):
            kept = [np.mean(getattr(found[size][name], which)[5:]) for name in CALLS]
            times.append(float(np.mean(kept)) / 1000)
        row, call = np.polyfit(sizes, times, 1, w=1 / sizes)
        lines += [max(0.0, call) / servers, row]
    return Costs(lines[0], lines[1], lines[2], lines[3], bandwidth)


def table(costs: Costs) -> str:
    """Samples per second of all trainers, and what binds, for each number of both."""
    head = "| servers | " + " | ".join(f"{one:,} trainers" for one in TRAINERS) + " |"
    lines = [head, "|---" * (1 + len(TRAINERS)) + "|"]
    for servers in SERVERS:
        cells = []
        for trainers in TRAINERS:
            limits = costs.limits(servers, trainers)
            name = min(limits, key=lambda one: limits[one])
            cells.append(f"{BATCH * limits[name]:,.0f} ({name})")
        lines.append(f"| {servers} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=60)
    options.add_argument("--servers", type=int, default=2)
    given = options.parse_args()
    torch.set_num_threads(1)
    found: dict[int, dict[str, Times]] = {}
    for size in SIZES:
        measured = measure(Load(size, WIDTH, given.servers), given.repeats)
        found[size] = {name: times for calls in measured.values() for name, times in calls.items()}
    costs = fitted(found, given.servers, copying())
    for name, call, row in (
        ("a server", costs.served_call, costs.served_row),
        ("a trainer", costs.own_call, costs.own_row),
    ):
        print(f"{name}: {1e6 * call:.0f} us for a call, {1e9 * row:.0f} ns for a row")
    print(f"a copy: {costs.copies / 1e9:.1f} GB/s")
    print(table(costs))


if __name__ == "__main__":
    main()
