"""Results of the operator benchmark as a terminal table and as a section of a Markdown page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from refluid.measure.timing import Times

SHOWN = 20
LIMIT = 1.3
COLUMNS = ("operator", "run", "refluid", "PyTorch", "refluid takes", "why")


@dataclass(frozen=True)
class Measured:
    """Times of both sides for one case. gap: the largest relative difference of results. bare: what
    refluid's run takes where nothing is computed. known: why the operator itself is slower."""

    name: str
    what: str
    ours: Times
    theirs: Times
    gap: float
    bare: float
    known: str

    @property
    def ratio(self) -> float:
        """How many times as long refluid takes."""
        return self.ours.median / self.theirs.median

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest ratio of blocks that ran one after the other."""
        pairs = zip(self.ours.block_medians, self.theirs.block_medians, strict=True)
        ratios = [mine / other for mine, other in pairs]
        return min(ratios), max(ratios)

    @property
    def reason(self) -> str:
        """Why refluid takes too long: what is known, or the run where that explains it."""
        without = (self.ours.median - self.bare) / self.theirs.median
        if self.known or without > LIMIT:
            return self.known
        return f"{_milliseconds(self.bare)} of it is the run itself"

    @property
    def is_slow(self) -> bool:
        """Whether refluid takes too long and no reason is known."""
        return self.ratio > LIMIT and not self.reason

    def cells(self) -> tuple[str, ...]:
        low, high = self.span
        return (
            self.name,
            self.what,
            _milliseconds(self.ours.median),
            _milliseconds(self.theirs.median),
            f"{self.ratio:.2f} times as long ({low:.2f} to {high:.2f})",
            self.reason if self.ratio > LIMIT else "",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "seconds": {"refluid": self.ours.median, "PyTorch": self.theirs.median},
            "ratio": self.ratio,
            "range": self.span,
            "difference": self.gap,
            "reason": self.reason,
        }


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.{3 if seconds < 1e-3 else 2 if seconds < 1e-2 else 1}f} ms"


def slowest(found: Sequence[Measured], count: int) -> list[Measured]:
    """Those that take longest compared with PyTorch, first the worst."""
    return sorted(found, key=lambda one: -one.ratio)[:count]


def terminal_table(shown: Sequence[Measured], facts: Mapping[str, str]) -> Table:
    caption = ", ".join(f"{name} {value}" for name, value in facts.items())
    table = Table(*COLUMNS, title="Median time of operators", caption=caption)
    for one in shown:
        table.add_row(*one.cells(), style="red" if one.is_slow else None)
    return table


def markdown(found: Sequence[Measured], facts: Mapping[str, str]) -> str:
    """The slowest twenty, and what the others are like in one sentence."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [one.cells() for one in slowest(found, SHOWN)]
    ratios = [one.ratio for one in found]
    faster = sum(ratio < 1 for ratio in ratios)
    names = len({one.name for one in found})
    over = sum(ratio > LIMIT for ratio in ratios)
    return "\n".join(
        [
            f"The slowest {SHOWN} of {len(found)} runs of {names} operators, compared with the "
            "best way to compute the same in PyTorch; forward alone, and with the gradient. "
            f"refluid is faster in {faster} of them, takes more than {LIMIT} times as long in "
            f"{over}, and {statistics.median(ratios):.2f} times as long in the median.",
            "",
            *("| " + " | ".join(row) + " |" for row in rows),
            "",
            "Measured: " + ", ".join(f"{k} {v}" for k, v in facts.items()) + ".",
        ]
    )
