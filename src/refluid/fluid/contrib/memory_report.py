"""memory_report: how much memory a step needs, and what needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from refluid.core.dtypes import as_dtype, dtype_name
from refluid.fluid.executor import Executor
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.runtime.footprint import Planned, planned_peak
from refluid.runtime.meter import FED, STATE, Held, Measured, Meter, arm

__all__ = ["MemoryReport", "memory_report"]

_LARGEST = 10
_UNITS = ("B", "kB", "MB", "GB", "TB")
_COLUMNS, _ROWS = 72, 12
_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class LiveTensor:
    """Memory held at the peak: who made it, and the user's line that made the operator."""

    name: str
    size: int
    shape: tuple[int, ...]
    dtype: str
    maker: str
    line: str


@dataclass(frozen=True)
class MemoryReport:
    """What one step needed. Bytes; `curve`: (operator, bytes) after every kernel."""

    planned: Planned
    peak: int
    peak_operator: str
    peak_line: str
    state: int
    curve: list[tuple[str, int]]
    largest: list[LiveTensor]
    held_at_peak: int

    def text(self) -> str:
        """The report as text, with a picture of memory over the step."""
        where = f" ({self.peak_line})" if self.peak_line else ""
        lines = [
            "Memory of one step",
            f"  planned peak   {size_text(self.planned.peak)}, in {self.planned.operator}",
            f"  measured peak  {size_text(self.peak)}, in {self.peak_operator}{where}",
            f"  parameters and other state  {size_text(self.state)}",
            "",
            *picture([size for _, size in self.curve]),
            "",
            f"Largest of the {self.held_at_peak} tensors held at the peak",
        ]
        rows = [
            (size_text(one.size), one.name, f"{one.dtype}{list(one.shape)}", one.maker, one.line)
            for one in self.largest
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        for size, *texts, line in rows:
            cells = [size.rjust(widths[0])]
            cells += [text.ljust(width) for text, width in zip(texts, widths[1:], strict=True)]
            lines.append(("  " + "  ".join([*cells, line])).rstrip())
        return "\n".join(lines) + "\n"


def memory_report(
    executor: Executor,
    program: Program | None = None,
    feed: Mapping[str, Any] | None = None,
    fetch_list: Sequence[Variable | str] | None = None,
) -> MemoryReport:
    """Runs the program once (a training program makes one step) and reports its memory.

    Every kernel is looked at, so the run is a slow one. Memory that kernels need inside
    themselves isn't seen. ValueError where the program has no operators.
    """
    meter = Meter()
    former = arm(meter)
    try:
        executor.run(program, feed=feed, fetch_list=fetch_list)
    finally:
        arm(former)
    step = meter.largest
    if step is None or not step.watched:
        raise ValueError("the program has no operators, so there is no memory to report")
    return report_of(step)


def report_of(step: Measured) -> MemoryReport:
    """The report of a measured step."""
    held = step.at_peak()
    operator = step.curve[step.peak_moment][0]
    watched = step.watched[operator] if operator >= 0 else None
    return MemoryReport(
        planned_peak(step.request, step.fed),
        step.peak,
        watched.name if watched else "",
        watched.line if watched else "",
        sum(one.size for one in step.held if one.operator == STATE),
        [(step.watched[n].name if n >= 0 else "", size) for n, size in step.curve],
        [_live(step, one) for one in held[:_LARGEST]],
        len(held),
    )


def _live(step: Measured, one: Held) -> LiveTensor:
    dtype = dtype_name(as_dtype(one.dtype))
    if one.operator < 0:
        maker = {STATE: "(state)", FED: "(fed)"}[one.operator]
        line = _first_user(step, one.name)
        return LiveTensor(one.name, one.size, one.shape, dtype, maker, line)
    watched = step.watched[one.operator]
    name = one.name or f"(kept by {watched.name})"
    return LiveTensor(name, one.size, one.shape, dtype, watched.name, watched.line)


def _first_user(step: Measured, name: str) -> str:
    """The line of the first operator that reads the variable: the layer that it belongs to."""
    for watched in step.watched:
        if any(name in op.input_arg_names for op in watched.ops):
            return watched.line
    return ""


def size_text(size: float) -> str:
    """Bytes in the unit that suits them: `12.3 MB`."""
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def picture(sizes: Sequence[int]) -> list[str]:
    """A curve as lines of block characters, its maximum beside the top one."""
    count = min(_COLUMNS, len(sizes))
    most = max(sizes, default=0)
    if not count or not most:
        return []
    edges = [len(sizes) * column // count for column in range(count + 1)]
    heights = [max(sizes[first:end]) * _ROWS * 8 // most for first, end in pairwise(edges)]
    lines = []
    for row in reversed(range(_ROWS)):
        cells = "".join(_BLOCKS[min(8, max(0, height - row * 8))] for height in heights)
        label = size_text(most) if row == _ROWS - 1 else "0 B" if row == 0 else ""
        lines.append(f"{label:>14} │{cells.rstrip()}")
    return lines
