"""Tables of what a profiler noted, one for each view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from refluid.core.events import Event, EventKind
from refluid.fluid.profiling.report import Row, rows
from refluid.ir.attributes import OpRole
from refluid.paddle.profiler.results import Noted
from refluid.paddle.profiler.states import SortedKeys, SummaryView
from refluid.runtime.watched import Watched

STEP = "ProfileStep"
"""How events of whole steps are called, before their numbers."""

_UNITS = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_KEYS: Mapping[SortedKeys, Callable[[Row], float]] = {
    SortedKeys.CPUTotal: lambda row: -row.total,
    SortedKeys.CPUAvg: lambda row: -row.mean,
    SortedKeys.CPUMax: lambda row: -row.most,
    SortedKeys.CPUMin: lambda row: row.least,
    SortedKeys.GPUTotal: lambda row: -row.device,
    SortedKeys.GPUAvg: lambda row: -row.device / row.calls,
    SortedKeys.GPUMax: lambda row: -row.most_device,
    SortedKeys.GPUMin: lambda row: row.least_device,
}
_PHASES = ("Dataloader", "Forward", "Backward", "Optimization", "Communication")
_COPIED = ("Memcpy", "Memset")


def summary(
    noted: Noted,
    sorted_by: SortedKeys,
    op_detail: bool,
    thread_sep: bool,
    time_unit: str,
    views: Sequence[SummaryView] | None,
) -> str:
    """The tables that are asked for (None: all) and have rows."""
    if time_unit not in _UNITS:
        raise ValueError(f"time_unit is one of {', '.join(_UNITS)}, not {time_unit!r}")
    tables = _Tables(noted, sorted_by, op_detail, thread_sep, _UNITS[time_unit])
    chosen = list(SummaryView) if views is None else views
    made = [tables.view(one) for one in chosen]
    return "\n".join([f"Time unit: {time_unit}", *filter(None, made)])


class _Tables:
    """The views of what was noted. unit: how much a millisecond is."""

    def __init__(
        self, noted: Noted, key: SortedKeys, detail: bool, threads: bool, unit: float
    ) -> None:
        self._noted, self._key, self._detail, self._threads = noted, _KEYS[key], detail, threads
        self._unit = unit
        log = noted.log
        self._steps = [one for one in log.events if one.name.startswith(f"{STEP}#")]
        known = set(map(id, self._steps))
        self._user = [
            one for one in log.events if one.kind is EventKind.USER and id(one) not in known
        ]
        self._phases: dict[str, list[Event]] = defaultdict(list)
        for one in log.events:
            if one.kind is not EventKind.USER:
                self._phases[phase(one)].append(one)
        self._whole = sum(one.duration for one in self._steps) * 1e-6 or noted.seconds * 1e3

    def view(self, which: SummaryView) -> str:
        """A table, empty where it has no rows."""
        table: str = getattr(self, f"_{which.name}")()
        return table

    def _DeviceView(self) -> str:
        seconds = max(self._noted.seconds, 1e-9)
        found = [["CPU(Process)", f"{100 * self._noted.computed / seconds:.2f}"]]
        if self._noted.kernels:
            busy = sum(one.end - one.start for one in self._noted.kernels) * 1e-9
            found.append(["GPU", f"{100 * busy / seconds:.2f}"])
        return _table("Device Summary", ["Device", "Utilization (%)"], found)

    def _OverView(self) -> str:
        kinds = {STEP: self._steps, **self._phases, "UserDefined": self._user}
        return self._of_kinds("Overview Summary", "Event Type", kinds)

    def _ModelView(self) -> str:
        kinds = {STEP: self._steps}
        kinds |= {name: self._phases[name] for name in _PHASES if name in self._phases}
        spent = sum(one.duration for part in self._phases.values() for one in part) * 1e-6
        table = self._of_kinds("Model Summary", "Name", kinds)
        others = max(self._whole - spent, 0.0)
        return f"{table}Others: {self._time(others)} ({self._share(others)}%)\n"

    def _DistributedView(self) -> str:
        sums = self._phases.get("Communication", [])
        if not sums:
            return ""
        rest = [one for name in _PHASES[1:4] for one in self._phases.get(name, [])]
        kinds = {"Communication": sums, "Computation": rest}
        return self._of_kinds("Distribution Summary", "Name", kinds)

    def _OperatorView(self) -> str:
        events = [one for name, part in self._phases.items() if name != _PHASES[0] for one in part]
        found = []
        for row in self._sorted(events):
            found.append(self._row(row))
            if self._detail:
                found.append(self._part("  preparation", row, row.total - row.compute))
                found.append(self._part("  compute", row, row.compute))
        return _table("Operator Summary", self._heads("Name"), found)

    def _UDFView(self) -> str:
        found = [self._row(row) for row in self._sorted(self._user)]
        return _table("UserDefined Summary", self._heads("Name"), found)

    def _KernelView(self) -> str:
        return self._of_kernels("Kernel Summary", copies=False)

    def _MemoryManipulationView(self) -> str:
        return self._of_kernels("Memory Manipulation Summary", copies=True)

    def _MemoryView(self) -> str:
        held: dict[str, list[tuple[int, int]]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)
        for one in self._noted.log.allocations:
            counts[one.device] += 1
            held[one.device].append((one.start, one.size))
            if one.end is not None:
                held[one.device].append((one.end, -one.size))
        found = []
        for device, changes in held.items():
            total = most = 0
            for _, change in sorted(changes):
                total += change
                most = max(most, total)
            made = sum(change for _, change in changes if change > 0)
            found.append([device, str(counts[device]), f"{made:,}", f"{most:,}"])
        return _table("Memory Summary", ["Device", "Allocations", "Bytes", "Peak bytes"], found)

    # -- rows -----------------------------------------------------------------

    def _sorted(self, events: Iterable[Event]) -> list[Row]:
        apart = self._threads
        found = rows(events if apart else (replace(one, thread=0) for one in events))
        return sorted(found, key=lambda row: (row.thread, self._key(row)))

    def _of_kinds(self, title: str, head: str, kinds: Mapping[str, Sequence[Event]]) -> str:
        merged = (
            row
            for name, part in kinds.items()
            for row in rows(replace(one, name=name, thread=0) for one in part)
        )
        return _table(title, self._heads(head), [self._row(row, named=False) for row in merged])

    def _of_kernels(self, title: str, copies: bool) -> str:
        times: dict[str, list[float]] = defaultdict(list)
        for one in self._noted.kernels:
            if one.copies is copies:
                times[one.name].append((one.end - one.start) * 1e-6)
        ordered = sorted(times.items(), key=lambda pair: -sum(pair[1]))
        found = [[name, str(len(each)), self._times(each)] for name, each in ordered]
        return _table(title, ["Name", "Calls", "GPU Total / Avg / Max / Min / Ratio(%)"], found)

    def _heads(self, first: str) -> list[str]:
        device = ["GPU Total"] if self._noted.kernels else []
        return [first, "Calls", "CPU Total / Avg / Max / Min / Ratio(%)", *device]

    def _row(self, row: Row, named: bool = True) -> list[str]:
        name = f"thread{row.thread}::{row.name}" if named and self._threads else row.name
        numbers = (row.total, row.mean, row.most, row.least)
        cells = " / ".join([*map(self._time, numbers), self._share(row.total)])
        device = [self._time(row.device)] if self._noted.kernels else []
        return [name, str(row.calls), cells, *device]

    def _part(self, name: str, row: Row, spent: float) -> list[str]:
        cells = f"{self._time(spent)} / {self._time(spent / row.calls)} / - / - / "
        device = ["-"] if self._noted.kernels else []
        return [name, str(row.calls), cells + self._share(spent), *device]

    def _times(self, each: Sequence[float]) -> str:
        numbers = (sum(each), sum(each) / len(each), max(each), min(each))
        return " / ".join([*map(self._time, numbers), self._share(sum(each))])

    def _time(self, milliseconds: float) -> str:
        return f"{milliseconds * self._unit:.2f}"

    def _share(self, milliseconds: float) -> str:
        return f"{100 * milliseconds / self._whole if self._whole else 0.0:.2f}"


def phase(event: Event) -> str:
    """What an event does for training: one of the rows of the model's table."""
    if event.kind is EventKind.READER:
        return _PHASES[0]
    if event.kind is EventKind.COMMUNICATION:
        return _PHASES[4]
    if isinstance(event.about, Watched):
        op = event.about.ops[0]
        if op.input("Param") or op.role & OpRole.OPTIMIZE:
            return _PHASES[3]
        if op.role & OpRole.BACKWARD or event.name.endswith("_grad"):
            return _PHASES[2]
    return _PHASES[1]


def _table(title: str, heads: Sequence[str], found: Sequence[Sequence[str]]) -> str:
    if not found:
        return ""
    widths = [max(map(len, column)) for column in zip(heads, *found, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *found)
    ]
    name = f" {title} ".center(len(rule), "-")
    return "\n".join(["", name, lines[0], rule, *lines[1:], rule, ""])
