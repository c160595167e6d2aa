"""Every public knob, what it does, and what it gains where it is meant to.

    python benchmarks/knobs.py
    python benchmarks/knobs.py --only memory_optimize num_threads
    python benchmarks/knobs.py --record

Both settings run in turns in one process (those that a process takes at its start in two), on the
same network with the same feeds. Their losses must agree, or the exit status is 1. Fusions are
measured by `benchmarks/fusions.py`, with `--record` here as well.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks.fusion_networks import CASES as FUSIONS
from benchmarks.fusions import measure as measure_fusion
from benchmarks.knob_cases import CASES, Case, Setting
from benchmarks.knob_networks import NETWORKS, Network, trained
from benchmarks.machine import facts
from benchmarks.report import record
from refluid import fluid
from refluid.core import flags
from refluid.engine.knob_table import knobs
from refluid.engine.knobs import Knob
from refluid.engine.strategy import BUILD
from refluid.measure.peak import peak_bytes
from refluid.measure.timing import Feed, TrainStep, alternate, first_losses, ratio

PAGE = Path(__file__).resolve().parent.parent / "docs" / "knobs.md"
COLUMNS = ("knob", "default", "what it does here", "measured on", "time", "peak memory")
CHILDREN = 2
NOT_RECORDED = "not recorded yet"
BLOCK = 0.3  # seconds of one block, at most


@dataclass(frozen=True)
class Effect:
    """Ratios with against without the knob; low and high over the blocks."""

    network: str
    time: tuple[float, float, float]
    peak: float | None
    agrees: bool = True

    def cells(self) -> tuple[str, str, str]:
        value, low, high = self.time
        peak = "" if self.peak is None else f"{self.peak:.2f}"
        return self.network, f"{value:.2f} ({low:.2f} to {high:.2f})", peak


class Run:
    """A training step of a network as a setting says; its startup program has run."""

    def __init__(self, network: Network, setting: Setting) -> None:
        self.setting, self.scope = setting, fluid.Scope()
        main, startup, self.loss = trained(network, setting.wrap)
        self.executor = fluid.Executor()
        self.executor.run(startup, scope=self.scope)
        build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
        for strategy, options in ((build, setting.build), (execution, setting.execution)):
            for name, value in options.items():
                setattr(strategy, name, value)
        self.program = fluid.CompiledProgram(main).with_data_parallel(
            loss_name=self.loss.name,
            build_strategy=build,
            exec_strategy=execution,
            places=fluid.cpu_places(setting.places),
        )

    def __call__(self, feed: Feed) -> float:
        with flags.override(self.setting.flags):
            (loss,) = self.executor.run(
                self.program, feed=feed, fetch_list=[self.loss], scope=self.scope
            )
        return float(loss.mean())


def measure(case: Case, blocks: int) -> Effect:
    """Both settings, in turns."""
    network = NETWORKS[case.network]
    title = network.title if case.what == "step" else f"{network.title}, {case.what}"
    if case.apart:
        return Effect(title, _in_processes(case), None)
    rivals: dict[str, TrainStep] = {
        name: Run(network, setting)
        for name, setting in (("with", case.with_), ("without", case.without))
    }
    feeds = network.feeds()
    losses = [first_losses(step, feeds) for step in rivals.values()]
    agrees = all(abs(a - b) <= case.tolerance * abs(b) for a, b in zip(*losses, strict=True))
    peaks = [peak_bytes(lambda step=step: step(feeds[0])) for step in rivals.values()]
    begin = time.perf_counter()
    first_losses(rivals["without"], feeds, 1)
    steps = int(BLOCK / (time.perf_counter() - begin))
    steps = max(1, min(network.steps, steps))
    times = alternate(rivals, feeds, blocks=blocks, steps=steps, warmup=1)
    found = ratio(times["without"], times["with"])
    return Effect(title, (found.value, found.low, found.high), peaks[0] / peaks[1], agrees)


def _in_processes(case: Case) -> tuple[float, float, float]:
    """Ratio of times, where each side is a process of its own; their order alternates."""
    ratios = []
    for turn in range(CHILDREN):
        sides = [case.with_, case.without]
        found = {id(side): _child(case, side) for side in (sides if turn % 2 else sides[::-1])}
        ratios.append(found[id(sides[0])] / found[id(sides[1])])
    return statistics.median(ratios), min(ratios), max(ratios)


def _child(case: Case, side: Setting) -> float:
    command = [sys.executable, __file__, "--child", case.network]
    environment = {**os.environ, **side.environment}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return times[case.what]


def child(name: str) -> None:
    """Prints the times of the first step and of later ones, for the process that started this."""
    network = NETWORKS[name]
    step, feeds = Run(network, Setting()), network.feeds()
    times = []
    for number in range(4 * network.steps):
        begin = time.perf_counter()
        step(feeds[number % len(feeds)])
        times.append(time.perf_counter() - begin)
    later = statistics.median(times[network.steps :])
    print(json.dumps({"first step": times[0], "step": later}))


def fusions(blocks: int, only: set[str]) -> dict[str, Effect]:
    """The fusing options, as `benchmarks/fusions.py` measures them."""
    found = {}
    for case in FUSIONS:
        name = case.passes[0].replace("fuse_softmax_cross_entropy", "enable_auto_fusion")
        if name in BUILD and (not only or name in only):
            print(f"{name} ...", file=sys.stderr)
            gain = measure_fusion(case, blocks)
            speed, (before, after) = gain.speed, gain.peaks
            times = 1 / speed.value, 1 / speed.high, 1 / speed.low
            found[name] = Effect(case.title, times, after / before, gain.agrees)
    return found


def measured_names() -> set[str]:
    """The knobs that have a measurement."""
    names = {case.passes[0] for case in FUSIONS} & set(BUILD)
    return {case.knob for case in CASES} | names | {"enable_auto_fusion"}


def cells_of(knob: Knob, effect: Effect | None) -> tuple[str, ...]:
    """The row of a knob."""
    reason = knob.ignored or knob.unmeasured or NOT_RECORDED
    does = knob.does[:1].upper() + knob.does[1:]
    cells = effect.cells() if effect else (reason, "", "")
    return f"`{knob.name}`", f"`{knob.shown}`", does, *cells


def markdown(effects: Mapping[str, Effect], known: Mapping[str, str]) -> str:
    """A table for each group."""
    lines: list[str] = []
    for scope, found in groupby(knobs(), key=lambda knob: knob.scope):
        lines += ["", f"## {scope.value}", "", "| " + " | ".join(COLUMNS) + " |"]
        lines.append("|" + "---|" * len(COLUMNS))
        for knob in found:
            lines.append("| " + " | ".join(cells_of(knob, effects.get(knob.name))) + " |")
    caption = ", ".join(f"{name} {value}" for name, value in known.items())
    return "\n".join([*lines, "", f"Measured: {caption}."])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what each knob gains.")
    parser.add_argument("--only", nargs="+", default=[], help="names of knobs")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child)
        return 0
    if options.only and options.record:
        parser.error("--record needs all knobs, so no --only")
    only = set(options.only)
    effects: dict[str, Effect] = {}
    for case in CASES:
        if not only or case.knob in only:
            print(f"{case.knob} ...", file=sys.stderr)
            effects[case.knob] = measure(case, options.blocks)
    effects |= fusions(options.blocks, only)
    known = facts("cpu")
    table = Table("knob", *COLUMNS[3:], caption=", ".join(known.values()))
    for name, effect in effects.items():
        table.add_row(name, *effect.cells(), style=None if effect.agrees else "red")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.record:
        record(PAGE, "knobs", markdown(effects, known))
    return 0 if all(effect.agrees for effect in effects.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
