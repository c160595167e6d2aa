"""What readers cost: transport from workers, hidden readers, throughput against torch's loader.

    python benchmarks/feeding.py
    python benchmarks/feeding.py --record

Both sides of each ratio are measured in one run, in turns. The exit status is 1 where a bound is
missed.
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

from benchmarks.feeding_steps import compute, count, hidden, wait
from benchmarks.feeding_transport import throughput, transport
from benchmarks.machine import facts
from benchmarks.report import record

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
COLUMNS = ("what", "refluid", "compared with", "ratio", "bound")


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


def measure(blocks: int) -> list[Row]:
    """All measurements. Step times with one thread, so that readers have a processor left."""
    rows = [_transport(40 * blocks)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows += [
        _hidden("waits", hidden(wait, blocks, 30), True),
        _hidden("computes in NumPy", hidden(compute, blocks, 30), False),
        _hidden("computes in Python", hidden(count, blocks, 30), False),
        _hidden(
            "computes in Python in a process",
            hidden(count, blocks, 30, use_multiprocess=True),
            False,
        ),
    ]
    torch.set_num_threads(threads)
    return [*rows, _throughput(2, throughput(2, 4096, blocks))]


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
