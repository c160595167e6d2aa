"""The tables of docs/knobs.md, of the knobs' records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import record
from refluid.engine.knob_effects import measured
from refluid.engine.knob_table import knobs
from refluid.engine.knobs import Knob, MeasuredEffect

PAGE = Path(__file__).resolve().parent.parent / "docs" / "knobs.md"
COLUMNS = ("knob", "default", "what it does here", "measured on", "time", "peak memory")
NOT_RECORDED = "not recorded yet"


def cells_of(effect: MeasuredEffect) -> tuple[str, str, str]:
    """Network, time and peak memory; `neutral` where steps take as long."""
    time = f"{effect.time:.2f} ({effect.low:.2f} to {effect.high:.2f})"
    peak = "" if effect.peak is None else f"{effect.peak:.2f}"
    network = f"{effect.network} ({effect.where})" if effect.where else effect.network
    return network, time + (", neutral" if effect.is_neutral else ""), peak


def row(knob: Knob) -> tuple[str, ...]:
    """The row of a knob."""
    reason = knob.ignored or knob.unmeasured or NOT_RECORDED
    does = knob.does[:1].upper() + knob.does[1:]
    cells = cells_of(knob.measured) if knob.measured else (reason, "", "")
    return f"`{knob.name}`", f"`{knob.shown}`", does, *cells


def markdown(known: Iterable[Knob], facts: Mapping[str, str]) -> str:
    """A table for each place where knobs are set."""
    lines: list[str] = []
    for scope, found in groupby(known, key=lambda knob: knob.scope):
        lines += ["", f"## {scope.value}", "", "| " + " | ".join(COLUMNS) + " |"]
        lines.append("|" + "---|" * len(COLUMNS))
        lines += ["| " + " | ".join(row(knob)) + " |" for knob in found]
    caption = ", ".join(f"{name} {value}" for name, value in facts.items())
    return "\n".join([*lines, "", f"Measured: {caption}."])


def write() -> None:
    """Writes the tables into the page."""
    measured.cache_clear()
    record(PAGE, "knobs", markdown(knobs(), measured()[1]))


if __name__ == "__main__":
    write()
    print(f"wrote {PAGE.name}")
