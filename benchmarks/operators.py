"""Median time of operators, refluid against the best PyTorch way to compute the same.

    python benchmarks/operators.py                       # the slowest twenty of all
    python benchmarks/operators.py --only lstm nms --all
    python benchmarks/operators.py --record              # into docs/benchmarks.md

Each operator is a program of its own that an Executor runs: once forward, once with its gradient.
PyTorch begins with the same tensors and must come to the same numbers. Blocks of both sides
alternate, and medians are compared. Fed sequences are laid out anew in every run, as with real
batches. One thread's CPU time is measured, which other processes hardly change; with --threads 2
and more, the time that passes.

The exit status is 1 where numbers differ, a case fails, or refluid takes more than 1.3 times as
long and no reason is given.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from rich.console import Console

from benchmarks.machine import facts
from benchmarks.operator_cases import CASES
from benchmarks.operator_cases.case import Case, Ours, Peer, gradient_like
from benchmarks.operator_report import LIMIT, SHOWN, Measured, markdown, slowest, terminal_table
from benchmarks.report import record
from refluid import fluid
from refluid.measure.timing import alternate

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
BLOCK_SECONDS = 0.03
TOLERANCE = 2e-3
AGAIN = 3  # times as many blocks, where refluid seems slow and no reason is known


def difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference of results, relative to the largest number of each."""
    worst = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        one, two = np.asarray(mine, dtype=np.float64), np.asarray(other, dtype=np.float64)
        if one.size != two.size:
            return float("inf")
        if one.size:
            gap = np.abs(one.reshape(-1) - two.reshape(-1)).max()
            worst = max(worst, float(gap / max(np.abs(two).max(), 1e-12)))
    return worst


@functools.cache
def bare_run(feeds: int) -> float:
    """Seconds of an `Executor.run` by itself, a part of every time of refluid's: so many small
    tensors are fed, and one that nothing is computed for is fetched."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        made = [fluid.data(f"x{i}", [4], "float32") for i in range(feeds)]
        made.append(fluid.layers.fill_constant([1], "float32", 0.0))
    exe, times, tick = fluid.Executor(), [], clock()
    feed = {f"x{i}": torch.zeros(4) for i in range(feeds)}
    for _ in range(200):
        begin = tick()
        exe.run(program, feed, made[-1:], return_numpy=False)
        times.append(tick() - begin)
    return statistics.median(times)


def clock() -> Callable[[], float]:
    """What is measured with the number of threads that torch has."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def pace(*sides: Callable[[], Any]) -> int:
    """How many runs make a block."""
    slow = 0.0
    for side in sides:
        side()
        begin = time.perf_counter()
        side()
        slow = max(slow, time.perf_counter() - begin)
    return int(min(200, max(1, BLOCK_SECONDS / max(slow, 1e-9))))


def measure(case: Case, gradient: Any, blocks: int) -> Measured:
    """One case, forward or (where `gradient` flows in) with its gradient."""
    ours, theirs = Ours(case, gradient), Peer(case, gradient)
    gap = difference(ours.results(), theirs.results()) if case.same else 0.0
    sides = {"refluid": ours, "PyTorch": theirs}
    runs = {name: (lambda _, side=side: side() or 0.0) for name, side in sides.items()}
    what = "training" if case.updates else "forward" if gradient is None else "with gradient"

    def once(blocks: int) -> Measured:
        steps = pace(ours, theirs)
        times = alternate(runs, [{}], blocks=blocks, steps=steps, warmup=1, clock=clock())
        bare = bare_run(len(ours.feed))
        return Measured(case.name, what, times["refluid"], times["PyTorch"], gap, bare, case.reason)

    gc.collect()
    gc.freeze()  # so that the collections between blocks are short
    found = once(blocks)
    return once(AGAIN * blocks) if found.is_slow else found


def measure_case(case: Case, blocks: int) -> list[Measured]:
    """Forward and with gradient; nothing where the case fails, after saying why."""
    try:
        found = [measure(case, None, blocks)]
        if case.wrt:
            flowing = gradient_like(Ours(case, None).results()[0])
            found.append(measure(case, flowing, blocks))
    except Exception:
        print(f"{case.name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return []
    return found


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time operators against PyTorch.")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose name has a word")
    parser.add_argument("--blocks", type=int, default=5, help="timed blocks of each side")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of both sides (1)")
    parser.add_argument("--all", action="store_true", help="print every case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--record", action="store_true", help=f"update {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.blocks < 1 or (options.record and (options.blocks < 5 or options.only)):
        parser.error("at least 1 block is needed; for --record 5, and all cases")
    return options


def failures(found: list[Measured], failed: list[str]) -> list[str]:
    """What is wrong, in words."""
    wrong = [f"{name}: failed" for name in failed]
    for one in found:
        if one.gap > TOLERANCE:
            wrong.append(f"{one.name}, {one.what}: results differ by {one.gap:.0e}")
        if one.is_slow:
            wrong.append(f"{one.name}, {one.what}: over {LIMIT} times as long, for no known reason")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    torch.set_num_threads(options.threads)
    words = options.only or [""]
    found: list[Measured] = []
    failed: list[str] = []
    for case in (case for case in CASES if any(word in case.name for word in words)):
        measured = measure_case(case, options.blocks)
        failed += [] if measured else [case.name]
        for one in measured if options.all else ():
            print(f"{one.ratio:5.2f}  {one.name}, {one.what}", file=sys.stderr, flush=True)
        found += measured
    known = facts("cpu") | {"a run of nothing": f"{bare_run(1) * 1e6:.0f} µs"}
    shown = slowest(found, len(found) if options.all else SHOWN)
    Console(width=None if sys.stdout.isatty() else 160).print(terminal_table(shown, known))
    if options.json:
        options.json.write_text(json.dumps([one.as_json() for one in found], indent=1) + "\n")
    if options.record:
        record(PAGE, "operators on cpu", markdown(found, known))
    wrong = failures(found, failed)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
