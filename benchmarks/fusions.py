"""What each fusing pass gains: time of a training step and peak memory, with it and without.

    python benchmarks/fusions.py
    python benchmarks/fusions.py --cases conv_bias --tiers interpreted recorded compiled
    python benchmarks/fusions.py --threads 1 --record

The same plan runs with only the pass in question applied and with no pass at all, in turns in one
process, by each tier. Losses of the first steps must agree, or the exit status is 1. Of one
thread the processor's time is measured, which other processes hardly change.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.fusion_networks import CASES, FusionCase, feeds, trained
from benchmarks.machine import facts
from benchmarks.report import record
from refluid import fluid
from refluid.core import flags
from refluid.engine.pipeline import BY_NAME, run_passes
from refluid.engine.setting import Setting
from refluid.measure.peak import peak_bytes
from refluid.measure.timing import Feed, Ratio, TrainStep, alternate, first_losses, ratio
from refluid.runtime.plan import Plan
from refluid.runtime.recorded.trial import compiling_at_once
from refluid.runtime.request import Request

PAGE = Path(__file__).resolve().parent.parent / "docs" / "passes.md"
COLUMNS = (
    *("fusion", "network", "tier", "without", "with"),
    *("time without / with", "peak without", "with"),
)
TIERS = ("interpreted", "recorded", "compiled")
TOLERANCE = 1e-5


class PlanStep:
    """A training step: the plan of a program, on its own copy of the variables."""

    def __init__(self, program: Any, loss: str, weights: dict[str, torch.Tensor]) -> None:
        self.scope = fluid.Scope()
        for name, value in weights.items():
            self.scope.var(name).value = value.clone()
        request = Request(program.global_block(), ("image", "label"), (loss,), torch.device("cpu"))
        self.plan = Plan(request)

    def __call__(self, feed: Feed) -> float:
        tensors = [torch.from_numpy(feed[name]) for name in ("image", "label")]
        (loss,) = self.plan.run(self.scope, tensors)
        return float(loss.value)


@dataclass(frozen=True)
class Gain:
    """Median steps in seconds and peaks in bytes, (without, with) the pass."""

    case: FusionCase
    tier: str
    seconds: tuple[float, float]
    speed: Ratio
    peaks: tuple[int, int]
    agrees: bool

    def cells(self) -> tuple[str, ...]:
        speed = f"{self.speed.value:.2f} ({self.speed.low:.2f} to {self.speed.high:.2f})"
        before, after = (f"{one * 1e3:.2f} ms" for one in self.seconds)
        peaks = (f"{one / 2**20:.1f} MiB" for one in self.peaks)
        return (
            ", ".join(self.case.passes),
            self.case.title,
            self.tier,
            before,
            after,
            speed,
            *peaks,
        )


def measure(case: FusionCase, blocks: int, tier: str = "auto") -> Gain:
    """Both programs from the same weights, alternating, by one tier."""
    at_once = compiling_at_once() if tier == "compiled" else nullcontext()
    with flags.override({"FLAGS_refluid_tier": tier}), at_once:
        return _measured(case, blocks, tier)


def _measured(case: FusionCase, blocks: int, tier: str) -> Gain:
    main, startup, loss = trained(case)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(startup)
    weights = {
        var.name: cell.value
        for var in main.list_vars()
        if var.persistable and (cell := scope.find_var(var.name)) is not None
    }
    fused = run_passes(
        main, [BY_NAME[name] for name in case.passes], Setting(kept=frozenset([loss]))
    )
    assert fused.subgraphs, case.name
    rivals: dict[str, TrainStep] = {
        name: PlanStep(program, loss, weights)
        for name, program in (("without", main), ("with", fused.program))
    }
    batches = feeds(case)
    losses = [first_losses(step, batches) for step in rivals.values()]
    agrees = all(abs(a - b) <= TOLERANCE * abs(a) for a, b in zip(*losses, strict=True))
    without, with_ = (peak_bytes(lambda step=step: step(batches[0])) for step in rivals.values())
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = alternate(rivals, batches, blocks=blocks, steps=case.steps, warmup=3, clock=clock)
    seconds = times["without"].median, times["with"].median
    speed = ratio(times["with"], times["without"])
    return Gain(case, tier, seconds, speed, (without, with_), agrees)


def main(arguments: list[str] | None = None) -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description="Measure what each fusing pass gains.")
    parser.add_argument("--cases", nargs="+", choices=names, default=names)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=TIERS[:2])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--record", action="store_true", help=f"update docs/{PAGE.name}")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    chosen = [case for case in CASES if case.name in options.cases]
    gains = [measure(case, options.blocks, tier) for case in chosen for tier in options.tiers]
    known = facts("cpu")
    caption = ", ".join(f"{name} {value}" for name, value in known.items())
    table = Table(*COLUMNS, caption=caption)
    for gain in gains:
        table.add_row(*gain.cells(), style=None if gain.agrees else "red")
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    if options.record:
        rows = [COLUMNS, ("---",) * len(COLUMNS), *(gain.cells() for gain in gains)]
        text = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        record(PAGE, "fusions", f"{text}\n\nMeasured: {caption}.")
    return 0 if all(gain.agrees for gain in gains) else 1


if __name__ == "__main__":
    sys.exit(main())
