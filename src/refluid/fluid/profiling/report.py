"""The profiling report, in the words and columns of Fluid 1.8."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from refluid.core.events import Event, Log
from refluid.fluid.profiling.kernels import KernelEvent
from refluid.runtime.watched import Watched

_MS = 1e-6
_TITLE = "------------------------->     Profiling Report     <-------------------------"
_COPIES = "-------------------------     GpuMemCpy Summary     -------------------------"
_EVENTS = "-------------------------       Event Summary       -------------------------"
_PARTS = ("prepare_data", "infer_shape", "compute")
_COLUMN = 12


@dataclass(frozen=True)
class ReportOptions:
    """state: CPU, GPU or All. key: how rows are sorted. tracer: how detailed they are."""

    state: str
    key: str | None
    tracer: str

    @property
    def on_device(self) -> bool:
        """Whether times on the device are reported."""
        return self.state != "CPU"


@dataclass
class Row:
    """All events of one name in one thread; milliseconds."""

    name: str
    thread: int
    first_end: int
    calls: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = 0.0
    compute: float = 0.0
    device: float = 0.0
    least_device: float = float("inf")
    most_device: float = 0.0

    @property
    def mean(self) -> float:
        """Average of all calls."""
        return self.total / self.calls

    def add(self, event: Event) -> None:
        """Counts one more event. An operator's time has its preparation in it."""
        took = (event.duration + event.preparation) * _MS
        self.calls += 1
        self.total += took
        self.least, self.most = min(self.least, took), max(self.most, took)
        self.compute += event.duration * _MS
        on_device = event.device_ms()
        self.device += on_device
        self.least_device = min(self.least_device, on_device)
        self.most_device = max(self.most_device, on_device)


_DESCENDING = "in descending order in the same thread"
_ENDS = "event first end time in ascending order in the same thread"
SORTED: dict[str | None, tuple[str, Callable[[Row], float]]] = {
    None: (_ENDS, lambda r: r.first_end),
    "default": (_ENDS, lambda r: r.first_end),
    "calls": (f"number of calls {_DESCENDING}", lambda r: -r.calls),
    "total": (f"total time {_DESCENDING}", lambda r: -r.total),
    "max": (f"maximum time {_DESCENDING}", lambda r: -r.most),
    "min": (f"minimum time {_DESCENDING}", lambda r: -r.least),
    "ave": (f"average time {_DESCENDING}", lambda r: -r.mean),
}
"""What rows may be sorted by: how the report calls it, and the key."""


def report(log: Log, options: ReportOptions, kernels: Sequence[KernelEvent] = ()) -> str:
    """The report of what was noted. Ratios are shares of the time of all steps."""
    order, key = SORTED[options.key]
    found = sorted(rows(log.events, by_name=options.tracer == "AllOpDetail"), key=key)
    found.sort(key=lambda row: row.thread)
    steps = [one for one in log.events if one.depth == 0 and isinstance(one.about, Watched)]
    compute = sum(event.duration for event in steps) * _MS
    overhead = sum(event.preparation for event in steps) * _MS
    total = compute + overhead
    lines = ["", _TITLE, "", f"Place: {options.state}", "Time unit: ms", f"Sorted by {order}", ""]
    lines += [
        f"Total time: {total:g}",
        f"  Computation time       Total: {compute:<12g}Ratio: {_percent(compute, total)}",
        f"  Framework overhead     Total: {overhead:<12g}Ratio: {_percent(overhead, total)}",
        "",
    ]
    lines += [*_copies(kernels, total), _EVENTS, ""]
    return "\n".join(lines + list(_table(found, total, options))) + "\n"


def rows(events: Iterable[Event], by_name: bool = False) -> list[Row]:
    """One row per name and thread. by_name: each operator by itself."""
    found: dict[tuple[int, str], Row] = {}
    for event in events:
        name = event.name
        if by_name and isinstance(event.about, Watched):
            name = f"{name}:{event.about.result}"
        key = (event.thread, name)
        if key not in found:
            found[key] = Row(name, event.thread, event.end)
        found[key].add(event)
    return list(found.values())


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:g}%"


def _copies(kernels: Sequence[KernelEvent], total: float) -> list[str]:
    """Copies between memories, those that wait apart from those that don't."""
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for one in kernels:
        if one.copies:
            took = (one.end - one.start) * _MS
            kinds["GpuMemcpySync" if "Pageable" in one.name else "GpuMemcpyAsync"].append(took)
    lines = [_COPIES, ""]
    everything = [took for times in kinds.values() for took in times]
    for name, times in [("GpuMemcpy", everything), *((f"  {k}", v) for k, v in kinds.items())]:
        spent = sum(times)
        lines.append(
            f"{name:<25}Calls: {len(times):<12}Total: {spent:<12g}Ratio: {_percent(spent, total)}"
        )
    return [*lines, ""]


def _table(found: Sequence[Row], total: float, options: ReportOptions) -> Iterable[str]:
    lines: list[tuple[str, list[str]]] = []
    for row in found:
        name = f"thread{row.thread}::{row.name}"
        lines.append((name, _cells(row, row.total, total, options)))
        if options.tracer != "Default":
            # Shapes are inferred when the program is built, so nothing is left of that here.
            for part, spent in zip(
                _PARTS, (row.total - row.compute, 0.0, row.compute), strict=True
            ):
                lines.append((f"  {name}/{part}", _part(row, spent, total, options)))
    width = max([40, *(len(name) for name, _ in lines)]) + 4
    device = ["CPU Time (Ratio)", "GPU Time (Ratio)"] if options.on_device else []
    head = ["Calls", "Total", *device, "Min.", "Max.", "Ave.", "Ratio."]
    yield _line("Event", head, width)
    for name, cells in lines:
        yield _line(name, cells, width)


def _line(name: str, cells: Sequence[str], width: int) -> str:
    wide = [cell.ljust(_COLUMN if len(cell) < _COLUMN else 24) for cell in cells]
    return (name.ljust(width) + "".join(wide)).rstrip()


def _cells(row: Row, spent: float, total: float, options: ReportOptions) -> list[str]:
    share = spent / total if total else 0.0
    return [
        str(row.calls),
        f"{spent:g}",
        *_device(spent, row.device, options),
        f"{row.least:g}",
        f"{row.most:g}",
        f"{row.mean:g}",
        f"{share:g}",
    ]


def _part(row: Row, spent: float, total: float, options: ReportOptions) -> list[str]:
    share = spent / total if total else 0.0
    device = _device(spent, row.device if spent == row.compute else 0.0, options)
    return [str(row.calls), f"{spent:g}", *device, "", "", f"{spent / row.calls:g}", f"{share:g}"]


def _device(spent: float, device: float, options: ReportOptions) -> list[str]:
    if not options.on_device:
        return []
    share = device / spent if spent else 0.0
    return [f"{spent - device:.6f} ({1 - share:.6f})", f"{device:.6f} ({share:.6f})"]
