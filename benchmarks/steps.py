"""Median time of a training step, refluid against eager PyTorch: same network, weights and data.

    python benchmarks/steps.py                          # all networks on this CPU
    python benchmarks/steps.py --models mlp conv --record

refluid starts from its own initial weights; PyTorch gets a copy. Their losses in the first steps
must agree, or the exit status is 1. Then blocks of steps of both alternate, and medians are
compared. On both sides a step begins with NumPy arrays and ends with the loss as a Python number.
PyTorch runs at its usual best: fused optimizer, gradients set to None, and for ResNet-50 both the
plain layout and channels_last. The faster counts; losses are compared with the plain layout's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.machine import facts
from benchmarks.networks_fluid import FluidStep
from benchmarks.networks_torch import TorchStep
from benchmarks.report import OURS, PEER, Result, as_json, markdown, record, terminal_table
from benchmarks.timing import Step, alternate, first_losses
from benchmarks.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
CHANNELS_LAST = ("resnet50",)


def rivals(work: Workload, device: str) -> dict[str, Step]:
    """refluid's step and PyTorch's, all with the same weights."""
    ours = FluidStep(work, device)
    steps: dict[str, Step] = {OURS: ours}
    steps[PEER] = TorchStep(work, device, weights=ours.weights)
    if work.name in CHANNELS_LAST:
        steps[f"{PEER}, channels_last"] = TorchStep(
            work, device, weights=ours.weights, channels_last=True
        )
    return steps


def measure(work: Workload, device: str, blocks: int, tick: Callable[[], None]) -> Result:
    feeds = work.feeds()
    steps = rivals(work, device)
    losses = {name: first_losses(step, feeds) for name, step in steps.items()}
    times = alternate(steps, feeds, blocks=blocks, steps=work.steps, warmup=work.warmup, tick=tick)
    return Result(work, times, losses)


def measure_all(names: list[str], device: str, blocks: int) -> list[Result]:
    """Measure one network after the other, with a progress bar on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("blocks"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    results = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for work in (WORKLOADS[name] for name in names):
            total = blocks * (3 if work.name in CHANNELS_LAST else 2)
            task = progress.add_task(work.title, total=total)
            if not console.is_terminal:
                print(f"measuring {work.title}", file=sys.stderr, flush=True)
            results.append(measure(work, device, blocks, lambda task=task: progress.advance(task)))
    return results


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time training steps against eager PyTorch.")
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--blocks", type=int, default=7, help="timed blocks of each side (5 or more)"
    )
    parser.add_argument("--threads", type=int, help="CPU threads of both sides (default: torch's)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--record", action="store_true", help=f"update {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.blocks < 1 or (options.record and options.blocks < 5):
        parser.error("at least 1 block is needed, and 5 for --record")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    results = measure_all(options.models, options.device, options.blocks)
    known = facts(options.device)
    Console(width=None if sys.stdout.isatty() else 160).print(terminal_table(results, known))
    if options.json:
        options.json.write_text(json.dumps(as_json(results, known), indent=1) + "\n")
    if options.record:
        record(PAGE, f"steps on {options.device}", markdown(results, known))
    return 0 if all(result.agrees for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
