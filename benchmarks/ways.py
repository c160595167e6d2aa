"""refluid's ways of training a network, and eager PyTorch's, in one process and in turns.

    python benchmarks/ways.py mlp                   # one thread, processor time
    python benchmarks/ways.py mlp lstm --threads 2  # the time that passes
    python benchmarks/ways.py mlp --compiled        # compiled programs

The suite has a process for each: nothing of one is in the other's way, but a disturbed machine
disturbs one and not the other. Here each round has a block of steps of each, one after the other;
a ratio is the median of those of single rounds, with their quartiles.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.machine import facts
from benchmarks.suite.rivals import DECLARATIVE, DYGRAPH, EAGER, REFLUID, RIVALS
from benchmarks.suite.sides.side import Options, Side, make
from benchmarks.suite.workloads import WORKLOADS, Workload
from refluid import fluid
from refluid.fluid import dygraph
from refluid.measure.timing import Times, alternate, first_losses

# What is set beside what.
PAIRS = ((DYGRAPH, EAGER), (DECLARATIVE, REFLUID), (REFLUID, EAGER), (DECLARATIVE, EAGER))
SECONDS, LEAST, WARM = 0.15, 4, 20


def sides_of(work: Workload, threads: int) -> dict[str, Side]:
    """All of them with the same weights, those that run at once last."""
    made: dict[str, Side] = {}
    weights = None
    for name in (REFLUID, EAGER, DYGRAPH, DECLARATIVE):
        rival = RIVALS[name]
        if rival.workloads and work.name not in rival.workloads:
            continue
        _way(name)
        made[name] = make(rival.kind, work, Options(rival.variant, threads=threads), weights)
        weights = weights or made[name].weights()
    return made


def _way(name: str) -> None:
    """Functions of Fluid's run at once, or append to programs, as that side has it."""
    if name in (DYGRAPH, DECLARATIVE):
        dygraph.enable_dygraph(fluid.CPUPlace())
    else:
        dygraph.disable_dygraph()


def measured(work: Workload, threads: int, rounds: int) -> Mapping[str, Times]:
    """Steps of each side, in so many blocks; those of the slowest take about SECONDS."""
    clock = time.process_time if threads == 1 else time.perf_counter
    sides, feeds = sides_of(work, threads), work.feeds()
    runs, slowest = dict[str, Callable[[int], float]](), 0.0
    for name, side in sides.items():
        _way(name)
        run = runs[name] = _run(side, [side.prepare(feed) for feed in feeds])
        first_losses(run, range(len(feeds)), WARM)
        while not side.is_settled():
            run(0)
        begin = time.perf_counter()
        run(0)
        slowest = max(slowest, time.perf_counter() - begin)
    steps, numbers = max(LEAST, round(SECONDS / slowest)), range(len(feeds))
    return alternate(runs, numbers, blocks=rounds, steps=steps, warmup=1, before=_way, clock=clock)


def _run(side: Side, fed: Sequence[Any]) -> Callable[[int], float]:
    return lambda number: side.step(fed[number])


def rows_of(found: Mapping[str, Times]) -> list[tuple[str, str]]:
    """What is said of one network: medians, and ratios with their quartiles."""
    rows = [(RIVALS[name].title, f"{times.median * 1e3:.4g} ms") for name, times in found.items()]
    for one, other in PAIRS:
        if one in found and other in found:
            pairs = zip(found[one].block_medians, found[other].block_medians, strict=True)
            low, middle, high = statistics.quantiles([a / b for a, b in pairs], n=4)
            title = f"{RIVALS[one].title} / {RIVALS[other].title}"
            rows.append((title, f"{middle:.2f} ({low:.2f} to {high:.2f})"))
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    at_once = [name for name in WORKLOADS if name in RIVALS[DYGRAPH].workloads]
    parser.add_argument(
        "networks", nargs="+", choices=at_once, metavar="NETWORK", help=", ".join(at_once)
    )
    parser.add_argument("--threads", type=int, default=1, help="of operators (1: processor time)")
    parser.add_argument("--rounds", type=int, default=31, help="blocks of each (31)")
    parser.add_argument("--compiled", action="store_true", help="programs are compiled")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.compiled:
        fluid.set_flags({"FLAGS_refluid_tier": "compiled"})
    for name in options.networks:
        work = WORKLOADS[name]
        table = Table("what", "a step", title=work.title)
        for row in rows_of(measured(work, options.threads, options.rounds)):
            table.add_row(*row)
        Console(width=None if sys.stdout.isatty() else 100).print(table)
    print(", ".join(f"{key} {value}" for key, value in facts("cpu").items()))


if __name__ == "__main__":
    main()
