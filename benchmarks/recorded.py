"""Steps of recorded models, beside what Fluid 1.8.5 took for them when they were recorded.

    python benchmarks/recorded.py                        # all of them
    python benchmarks/recorded.py --only gru4rec lac --tier interpreted
    python benchmarks/recorded.py --record               # into docs/benchmarks.md

Both are processor time, of one thread here. Fluid's is the shortest of its three ways: plain runs,
runs with `use_program_cache`, and compiled programs. It ran on another machine, beside others: the
figures say where refluid is behind, or ahead by much, and not by how many percent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.progress import track

from benchmarks.machine import facts
from benchmarks.report import record
from refluid import fluid
from refluid.measure.timing import no_collection
from refluid.verify.recordings import Recording, load_recording
from refluid.verify.replay import fed, starting_scope
from tests.golden import GOLDEN, recorded_models

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
WAYS = ("plain_ms", "cached_ms", "compiled_ms")
# Rounds of the recorded steps before any is timed, at least and for so many seconds; and those that
# are timed.
WARM, LEAST, SECONDS = 6, 3, 0.7
SHOWN = 20


@dataclass(frozen=True)
class Compared:
    """Seconds of a step of processor time: Fluid's, and refluid's of each run."""

    name: str
    theirs: float
    ours: Sequence[float]

    @property
    def ratio(self) -> float:
        """How many times as fast refluid is."""
        return self.theirs / statistics.median(self.ours)

    def cells(self) -> tuple[str, ...]:
        median, least, most = (
            f"{1e3 * how(self.ours):.3g}" for how in (statistics.median, min, max)
        )
        return (
            self.name,
            f"{1e3 * self.theirs:.3g}",
            f"{median} ({least} to {most})",
            f"{self.ratio:.2f}",
        )


def fluids(known: Mapping[str, Any]) -> float:
    """Seconds of processor time of Fluid's fastest way, by what is known of a model."""
    times = [known[way]["cpu_median"] for way in WAYS if known.get(way)]
    return float(min(times)) / 1e3


def runs_of(recording: Recording) -> Sequence[Callable[[], Any]]:
    """A function for each recorded step; they train on from one to the next."""
    executor, scope = fluid.Executor(fluid.CPUPlace()), starting_scope(recording)

    def run(number: int) -> Callable[[], Any]:
        step = recording.steps[number]
        program = recording.programs[step.program]
        feed = {name: fed(value) for name, value in step.feeds.items()}
        fetches = list(step.fetches)
        return lambda: executor.run(
            program, feed=feed, fetch_list=fetches, scope=scope, return_numpy=False
        )

    return [run(number) for number in range(len(recording.steps))]


def measured(recording: Recording) -> Sequence[float]:
    """Seconds of processor time of a step: the mean of each round over the recorded ones."""
    runs = runs_of(recording)

    def round_() -> float:
        begin = time.process_time()
        for run in runs:
            run()
        return (time.process_time() - begin) / len(runs)

    def rounds(least: int) -> Sequence[float]:
        found = [round_()]
        while len(found) < least or sum(found) * len(runs) < SECONDS:
            found.append(round_())
        return found

    rounds(WARM)
    with no_collection():
        return rounds(LEAST)


def alone(name: str, tier: str) -> Sequence[float]:
    """`measured`, in a process of its own."""
    torch.set_num_threads(1)
    fluid.set_flags({"FLAGS_refluid_tier": tier})
    return measured(load_recording(GOLDEN / "zoo" / name))


def compare(names: Sequence[str], tier: str) -> Iterator[Compared]:
    """One model after the other, each in a process that hasn't trained another one."""
    models, fresh = recorded_models(), get_context("spawn")
    for name in track(names, "recorded models", console=Console(stderr=True)):
        with ProcessPoolExecutor(1, fresh) as process:
            ours = process.submit(alone, name, tier).result()
        yield Compared(name, fluids(models[name]), ours)


def summary(found: Sequence[Compared]) -> str:
    ratios = [one.ratio for one in found]
    behind = sum(ratio < 1 for ratio in ratios)
    middle, mean = statistics.median(ratios), statistics.geometric_mean(ratios)
    lowest = min(SHOWN, len(found))
    return (
        f"Of {len(found)} models refluid is {middle:.2f} times as fast in the median, {mean:.2f} "
        f"in the geometric mean, and behind in {behind}. The {lowest} with the lowest ratios:"
    )


def markdown(found: Sequence[Compared]) -> str:
    rows = sorted(found, key=lambda one: one.ratio)[:SHOWN]
    lines = [
        f"{summary(found)}\n",
        "| model | Fluid 1.8.5, ms | refluid, ms | refluid is so many times as fast |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(one.cells())} |" for one in rows),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time recorded models beside Fluid's own times.")
    parser.add_argument("--only", nargs="+", metavar="MODEL", choices=sorted(recorded_models()))
    parser.add_argument("--tier", default="recorded", help="FLAGS_refluid_tier (recorded)")
    parser.add_argument("--json", type=Path, help="where to write all of them")
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    options = parser.parse_args()
    if not recorded_models():
        sys.exit("no recordings: set REFLUID_GOLDEN to their folder")
    found = list(compare(options.only or sorted(recorded_models()), options.tier))
    print(markdown(found))
    if options.json:
        kept = {one.name: {"fluid": one.theirs, "refluid": list(one.ours)} for one in found}
        options.json.write_text(json.dumps(kept, indent=1))
    if options.record:
        caption = ", ".join(f"{name} {value}" for name, value in facts("cpu").items())
        record(PAGE, "recorded", f"{markdown(found)}\n\nMeasured: {caption}.")


if __name__ == "__main__":
    main()
