"""Every public knob, what it does, and what it gains where it is meant to.

    python benchmarks/knobs.py
    python benchmarks/knobs.py --only memory_optimize num_threads
    python benchmarks/knobs.py --record
    python benchmarks/knobs.py --record --only memory_optimize --blocks 15

Both settings run in turns in one process (those that a process takes at its start in two), on the
same network with the same feeds. Their losses must agree, or the exit status is 1. Fusions are
measured by `benchmarks/fusions.py`, with `--record` here as well. `--record --only` keeps what was
measured of the other knobs, and says beside the new figures where they are from.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.fusion_networks import CASES as FUSIONS
from benchmarks.fusions import measure as measure_fusion
from benchmarks.knob_cases import CASES, Case, Setting
from benchmarks.knob_loops import LOOPS, Loop
from benchmarks.knob_networks import NETWORKS, Network, trained
from benchmarks.machine import facts
from refluid import fluid
from refluid.core import flags
from refluid.engine.knob_effects import FILE
from refluid.engine.knobs import MeasuredEffect
from refluid.engine.strategy import BUILD
from refluid.measure.peak import peak_bytes
from refluid.measure.timing import Feed, TrainStep, alternate, first_losses, ratio
from scripts.knob_page import COLUMNS, PAGE, cells_of, write

CHILDREN = 2
BLOCK = 0.3  # seconds of one block, at most
FIRST = 6  # steps of each side whose losses are compared: the fourth one is recorded


@dataclass(frozen=True)
class Found:
    """What was measured of one knob, and whether losses agree with and without it."""

    effect: MeasuredEffect
    agrees: bool = True


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


def measure(case: Case, blocks: int) -> Found:
    """Both settings, in turns."""
    network = NETWORKS[case.network]
    title = network.title if case.what == "step" else f"{network.title}, {case.what}"
    if case.apart:
        return Found(_effect(title, _in_processes(case), None))
    rivals: dict[str, TrainStep] = {
        name: Run(network, setting)
        for name, setting in (("with", case.with_), ("without", case.without))
    }
    feeds = network.feeds()
    agrees = _agree(rivals, feeds, case.tolerance)
    for step in rivals.values():
        _settle(step, feeds, case.settles)
    peaks = [peak_bytes(lambda step=step: step(feeds[0])) for step in rivals.values()]
    times_of = _in_turns(rivals, feeds, blocks, network.steps)
    peak = peaks[0] / peaks[1] if all(peaks) else None  # not of operators in threads
    return Found(_effect(title, times_of, peak), agrees)


def measure_loop(loop: Loop, blocks: int) -> Found:
    """A loop with the knob and without it, in turns."""
    rivals = {"with": loop.make(True), "without": loop.make(False)}
    feeds = NETWORKS["small"].feeds()
    agrees = _agree(rivals, feeds, loop.tolerance)
    for step in rivals.values():
        _settle(step, feeds, loop.settles)
    return Found(_effect(loop.title, _in_turns(rivals, feeds, blocks, 100), None), agrees)


def _agree(rivals: Mapping[str, TrainStep], feeds: list[Feed], tolerance: float) -> bool:
    losses = [first_losses(step, feeds, FIRST) for step in rivals.values()]
    return all(abs(a - b) <= tolerance * abs(b) for a, b in zip(*losses, strict=True))


def _settle(step: TrainStep, feeds: list[Feed], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step(feeds[0])


def _in_turns(
    rivals: Mapping[str, TrainStep], feeds: list[Feed], blocks: int, most: int
) -> tuple[float, float, float]:
    """The ratio of times with to without it, and its range over blocks; where there is one thread,
    of what that computes, whatever else the machine does."""
    begin = time.perf_counter()
    first_losses(rivals["without"], feeds, 1)
    steps = max(1, min(most, int(BLOCK / (time.perf_counter() - begin))))
    alone = torch.get_num_threads() == 1
    clock = time.thread_time if alone else time.perf_counter
    times = alternate(rivals, feeds, blocks=blocks, steps=steps, warmup=1, clock=clock)
    found = ratio(times["without"], times["with"])
    return found.value, found.low, found.high


def _effect(network: str, times: tuple[float, float, float], peak: float | None) -> MeasuredEffect:
    # A ratio of medians may lie just beyond those of single rounds.
    value, low, high = (round(one, 3) for one in (times[0], min(times), max(times)))
    return MeasuredEffect(network, value, low, high, None if peak is None else round(peak, 3))


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


def fusions(blocks: int, only: set[str]) -> dict[str, Found]:
    """The fusing options, as `benchmarks/fusions.py` measures them."""
    found = {}
    for case in FUSIONS:
        name = case.passes[0].replace("fuse_softmax_cross_entropy", "enable_auto_fusion")
        if name in BUILD and (not only or name in only):
            print(f"{name} ...", file=sys.stderr)
            gain = measure_fusion(case, blocks)
            speed, (before, after) = gain.speed, gain.peaks
            times = 1 / speed.value, 1 / speed.high, 1 / speed.low
            found[name] = Found(_effect(case.title, times, after / before), gain.agrees)
    return found


def measured_names() -> set[str]:
    """The knobs that have a measurement."""
    names = {case.passes[0] for case in FUSIONS} & set(BUILD)
    loops = {loop.knob for loop in LOOPS}
    return {case.knob for case in CASES} | loops | names | {"enable_auto_fusion"}


def keep(found: Mapping[str, Found], known: Mapping[str, str], *, some: bool) -> None:
    """Writes the effects down, for the knobs' records, and the page that is made of these.

    some: beside those that are written down already, with where these were measured.
    """
    before = json.loads(FILE.read_text(encoding="utf-8")) if some else {"effects": {}}
    alone = ", one thread's own time" if torch.get_num_threads() == 1 else ""
    where = f"{known['machine']}, {known['date']}{alone}" if some else ""
    effects = {name: asdict(replace(one.effect, where=where)) for name, one in found.items()}
    effects = dict(sorted({**before["effects"], **effects}.items()))
    text = json.dumps(
        {"measured": before.get("measured", dict(known)), "effects": effects}, indent=1
    )
    FILE.write_text(text + "\n", encoding="utf-8")
    write()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what each knob gains.")
    parser.add_argument("--only", nargs="+", default=[], help="names of knobs")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument(
        "--record", action="store_true", help=f"update docs/{PAGE.name} and the knobs' records"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--one-thread", action="store_true", help="where others use the machine")
    options = parser.parse_args(arguments)
    if options.one_thread:
        torch.set_num_threads(1)
    if options.child:
        child(options.child)
        return 0
    only = set(options.only)
    effects: dict[str, Found] = {}
    for case in CASES:
        if not only or case.knob in only:
            print(f"{case.knob} ...", file=sys.stderr)
            effects[case.knob] = measure(case, options.blocks)
    for loop in LOOPS:
        if not only or loop.knob in only:
            print(f"{loop.knob} ...", file=sys.stderr)
            effects[loop.knob] = measure_loop(loop, options.blocks)
    effects |= fusions(options.blocks, only)
    known = facts("cpu")
    table = Table("knob", *COLUMNS[3:], caption=", ".join(known.values()))
    for name, one in effects.items():
        table.add_row(name, *cells_of(one.effect), style=None if one.agrees else "red")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.record:
        keep(effects, known, some=bool(only))
    return 0 if all(effect.agrees for effect in effects.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
