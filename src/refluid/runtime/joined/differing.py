"""Which values of a step differ between replicas; all others are computed once for all."""

from __future__ import annotations

from collections.abc import Mapping

from refluid.runtime.joined.align import Joint, Unlike
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.recorded.graph import Kernel, Line, Value


class Differing:
    """Values and memory that each replica has of its own.

    What comes of a fed value, of random numbers, or of a variable that replicas have different
    values of, differs; a sum over all replicas does not. What is written to memory that differs
    makes all that lies in it differ.
    """

    def __init__(self, joint: Joint, means: Mapping[Line, Meaning], cells: set[int]) -> None:
        self._values: set[Value] = set()
        self._storages: set[int] = set()
        self._means, self._cells = means, cells
        for value in joint.counterparts:
            if value.constant is not None and joint.constant_differs(value):
                self._add(value)
        before = -1
        while before != (now := len(self._values) + len(self._storages) + len(self._cells)):
            before = now
            for step in joint.steps:
                if isinstance(step, Kernel):
                    self._kernel(step)
                else:
                    self._line(step, means[step])

    def __contains__(self, value: Value) -> bool:
        return value in self._values or value.storage in self._storages

    @property
    def cells(self) -> set[int]:
        """The numbers of the variables that differ."""
        found = set(self._cells)
        for line, mean in self._means.items():
            values = {"load": line.stores, "store": line.loads}.get(mean.kind, {}).values()
            if any(value in self for value in values):
                found.add(mean.cell)
        return found

    def _add(self, value: Value) -> None:
        self._values.add(value)
        if value.storage is not None:
            self._storages.add(value.storage)

    def _kernel(self, kernel: Kernel) -> None:
        if not kernel.draws and not any(value in self for value in kernel.uses):
            return
        self._storages |= kernel.writes
        for value in kernel.outs:
            if value is not None:
                self._add(value)

    def _line(self, line: Line, mean: Meaning) -> None:
        given = any(value in self for value in line.loads.values())
        if mean.kind == "feeds" or (mean.kind == "load" and mean.cell in self._cells):
            given = True
        if mean.kind == "branch" and given:
            raise Unlike("the program has branches that differ between replicas")
        if mean.kind in ("sum", "wait", "return") or not (given or mean.draws):
            return
        if mean.kind == "store":
            self._cells.add(mean.cell)
        if mean.kind == "ghost":  # all ghosts lie in the same memory
            self._values.update(line.stores.values())
            return
        for value in line.stores.values():
            self._add(value)
        if mean.overwrites:
            for value in line.loads.values():
                self._add(value)
