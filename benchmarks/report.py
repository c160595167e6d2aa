"""Results of the step benchmark: as a terminal table, as JSON, as a section of a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.timing import Ratio, Times, ratio
from benchmarks.workloads import Workload

OURS, PEER = "refluid", "eager"
COLUMNS = ("network", "refluid", "PyTorch", "PyTorch runs as", "refluid is", "losses")


@dataclass(frozen=True)
class Result:
    """One workload measured: times of all rivals, and their losses in the first steps."""

    work: Workload
    times: Mapping[str, Times]
    losses: Mapping[str, Sequence[float]]

    @property
    def fastest_peer(self) -> str:
        return min(
            (name for name in self.times if name != OURS), key=lambda n: self.times[n].median
        )

    @property
    def ratio(self) -> Ratio:
        return ratio(self.times[OURS], self.times[self.fastest_peer])

    @property
    def difference(self) -> float:
        """The largest relative difference of refluid's first losses from plain eager PyTorch's."""
        return self._difference(OURS)

    @property
    def peer_spread(self) -> float:
        """How far PyTorch's own variants are from plain eager PyTorch, by rounding."""
        return max(self._difference(name) for name in self.losses if name != OURS)

    def _difference(self, name: str) -> float:
        pairs = zip(self.losses[name], self.losses[PEER], strict=True)
        return max(abs(one - peer) / max(abs(peer), 1e-12) for one, peer in pairs)

    @property
    def allowed(self) -> float:
        """The workload's bound, or twice what PyTorch's own variants differ by, if that is more."""
        return max(self.work.tolerance, 2 * self.peer_spread)

    @property
    def agrees(self) -> bool:
        return self.difference <= self.allowed

    def cells(self) -> tuple[str, ...]:
        speed = self.ratio
        return (
            self.work.title,
            _milliseconds(self.times[OURS].median),
            _milliseconds(self.times[self.fastest_peer].median),
            self.fastest_peer,
            f"{speed.value:.2f} times as fast ({speed.low:.2f} to {speed.high:.2f})",
            f"differ by {self.difference:.0e} ({'within' if self.agrees else 'OVER'} "
            f"{self.allowed:.0e})",
        )


def _milliseconds(seconds: float) -> str:
    digits = 3 if seconds < 1e-3 else 2 if seconds < 1e-2 else 1 if seconds < 1e-1 else 0
    return f"{seconds * 1e3:,.{digits}f} ms"


def terminal_table(results: Sequence[Result], facts: Mapping[str, str]) -> Table:
    caption = ", ".join(f"{name} {value}" for name, value in facts.items())
    table = Table(*COLUMNS, title="Median time of a training step", caption=caption)
    for result in results:
        table.add_row(*result.cells(), style=None if result.agrees else "red")
    return table


def as_json(results: Sequence[Result], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "facts": dict(facts),
        "results": {
            result.work.name: {
                "title": result.work.title,
                "median_seconds": {name: t.median for name, t in result.times.items()},
                "block_medians": {name: t.block_medians for name, t in result.times.items()},
                "first_losses": {name: list(losses) for name, losses in result.losses.items()},
                "difference": result.difference,
                "peer_spread": result.peer_spread,
                "tolerance": result.work.tolerance,
                "tolerance_reason": result.work.reason,
                "ratio": vars(result.ratio),
                "ratio_to": result.fastest_peer,
            }
            for result in results
        },
    }


def markdown(results: Sequence[Result], facts: Mapping[str, str]) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(result.cells() for result in results)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", "Measured: " + ", ".join(f"{k} {v}" for k, v in facts.items()) + "."]
    notes = [f"- {result.work.title}: {_note(result)}." for result in results]
    heading = "How far the losses of the first three steps may differ, and why:"
    return "\n".join([*lines, "", heading, "", *notes])


def _note(result: Result) -> str:
    note = f"{result.work.tolerance:.0e} ({result.work.reason})"
    if result.peer_spread:
        note += f"; PyTorch's own memory layouts differ by {result.peer_spread:.0e}"
    return note


def record(path: Path, name: str, text: str) -> None:
    """Replace the section `name` of a Markdown file by `text`; append it where there is none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{text}\n{end}"
    page = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    if begin in page and end in page:
        head, _, rest = page.partition(begin)
        page = head + section + rest.partition(end)[2]
    else:
        page = f"{page.rstrip()}\n\n{section}\n"
    path.write_text(page, encoding="utf-8")
