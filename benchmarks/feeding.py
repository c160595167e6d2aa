"""What feeding costs: parsing, transport from workers, hidden readers, photographs, memory.

    python benchmarks/feeding.py
    python benchmarks/feeding.py --record

Both sides of each ratio are measured in one run, in turns. The exit status is 1 where a bound is
missed. Photographs come from `scripts/fetch_data.py photos`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.feeding_memory import bounded
from benchmarks.feeding_multislot import parsing, training
from benchmarks.feeding_photos import available, photos
from benchmarks.feeding_steps import compute, count, hidden, wait
from benchmarks.feeding_transport import throughput, transport
from benchmarks.machine import facts
from benchmarks.report import record

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
COLUMNS = ("what", "refluid", "compared with", "ratio", "bound")
# Fluid 1.8.5's samples per CPU second on such a machine.
FLUID_CTR = 10_000
GIGABYTES, ABOVE = 2.0, 300


@dataclass(frozen=True)
class Row:
    """One measurement. kept: whether it is within its bound; None where it has none."""

    what: str
    ours: str
    other: str
    ratio: str
    bound: str
    kept: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        mark = "" if self.kept is None else " (kept)" if self.kept else " (MISSED)"
        return (self.what, self.ours, self.other, self.ratio, self.bound + mark)


def _transport(repeats: int) -> Row:
    ours, theirs = transport(repeats)
    return Row(
        "a 64x3x224x224 uint8 batch of a worker: the consumer's time",
        f"{ours * 1e3:.2f} ms",
        f"torch's DataLoader {theirs * 1e3:.2f} ms",
        f"{theirs / ours:.1f} times as fast",
        "below 1 ms",
        ours < 1e-3,
    )


def _hidden(name: str, pairs: Sequence[tuple[float, float]], bounded: bool) -> Row:
    ours, alone = (statistics.median(side) for side in zip(*pairs, strict=True))
    slower = statistics.median(one / other for one, other in pairs)
    return Row(
        f"a step with a reader that {name} for half of it",
        f"{ours * 1e3:.2f} ms",
        f"no reader {alone * 1e3:.2f} ms",
        f"{slower - 1:+.1%}",
        "within 3%" if bounded else "none: needs a second processor",
        slower < 1.03 if bounded else None,
    )


def _throughput(workers: int, pairs: Sequence[tuple[float, float]]) -> Row:
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    faster = statistics.median(one / other for one, other in pairs)
    return Row(
        f"crop, flip and batch by {workers} workers",
        f"{ours:,.0f} samples/s",
        f"torch's DataLoader {theirs:,.0f} samples/s",
        f"{faster:.2f} times as fast",
        "at least as fast",
        faster >= 1,
    )


def _parsing() -> Row:
    found = parsing(4000)
    return Row(
        "MultiSlot text, 26 slots, one thread",
        f"{found.lines:,.0f} lines/s, {found.size / 1e6:.0f} MB/s",
        f"plain Python {found.python:,.0f} lines/s; copying memory {found.copied / 1e9:.1f} GB/s",
        f"{found.lines / found.python:.1f} times as fast; copying {found.copied / found.size:.0f} "
        "times faster",
        "at least 10 times, and 500,000 lines/s",
        found.lines >= 10 * found.python and found.lines >= 500_000,
    )


def _training(rounds: int) -> Row:
    found = training(40_000, 1, rounds)
    return Row(
        "CTR-DNN by train_from_dataset, one thread",
        f"{found:,.0f} samples per CPU second",
        f"Fluid 1.8.5 {FLUID_CTR:,} (recorded)",
        f"{found / FLUID_CTR:.2f} times as fast",
        "at least 1.8 times",
        found >= 1.8 * FLUID_CTR,
    )


def _photos(rounds: int) -> Row:
    what = "JPEG decode, crop, flip and batch by 2 workers"
    reason = available()
    if reason:
        return Row(what, "not measured", reason, "", "at least as fast", None)
    pairs = photos(2, 512, 2 * rounds)
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    wall, cpu = (
        statistics.median(getattr(one, kind) / getattr(other, kind) for one, other in pairs)
        for kind in ("wall", "cpu")
    )
    return Row(
        what,
        f"{statistics.median(one.wall for one in ours):.0f} samples/s",
        f"torch's DataLoader {statistics.median(one.wall for one in theirs):.0f} samples/s",
        f"{wall:.2f} times as fast; {cpu:.2f} times per CPU second",
        "at least as fast per CPU second, within 2% of noise",
        cpu >= 0.98,
    )


def _memory() -> Row:
    found = bounded(round(GIGABYTES * 2**30))
    return Row(
        f"{found.text / 2**30:.1f} GB of files, read faster than trained",
        f"{found.above / 2**20:.0f} MB above the model",
        f"read {found.produced:.0f} batches/s, trained {found.consumed:.0f}",
        f"reader {found.produced / found.consumed:.1f} times as fast",
        f"within {ABOVE} MB",
        found.above <= ABOVE * 2**20,
    )


def measure(blocks: int) -> list[Row]:
    """All measurements. Step times with one thread, so that readers have a processor left."""
    threads = torch.get_num_threads()
    rows = [_parsing(), _training(blocks)]
    torch.set_num_threads(threads)
    rows.append(_transport(40 * blocks))
    torch.set_num_threads(1)
    rows += [
        _hidden("waits", hidden(wait, 3 * blocks, 10), True),
        _hidden("computes in NumPy", hidden(compute, 3 * blocks, 10), False),
        _hidden("computes in Python", hidden(count, 3 * blocks, 10), False),
        _hidden(
            "computes in Python in a process",
            hidden(count, 3 * blocks, 10, use_multiprocess=True),
            False,
        ),
    ]
    torch.set_num_threads(threads)
    rows += [_throughput(2, throughput(2, 4096, blocks)), _photos(blocks), _memory()]
    torch.set_num_threads(threads)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time readers.")
    parser.add_argument("--blocks", type=int, default=5, help="rounds of each measurement")
    parser.add_argument("--record", action="store_true", help=f"update {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    rows, known = measure(options.blocks), facts("cpu")
    caption = ", ".join(f"{name} {value}" for name, value in known.items())
    table = Table(*COLUMNS, title="Feeding", caption=caption)
    for row in rows:
        table.add_row(*row.cells, style="red" if row.kept is False else None)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.record:
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells for row in rows)]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        record(PAGE, "feeding", f"{text}\n\nMeasured: {caption}.")
    return 1 if any(row.kept is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
