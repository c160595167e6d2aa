"""Which values of a step differ between replicas, and which of these are only summed.

All others are computed once for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from refluid.ops.registry import facts_of
from refluid.runtime.batched.align import Aligned, Unlike
from refluid.runtime.batched.lines import Meaning
from refluid.runtime.recorded.graph import Kernel, Line, Value


class Differing:
    """Values and memory that each replica has of its own.

    What comes of a fed value, of random numbers, or of a variable that replicas have different
    values of, differs; a sum over all replicas does not. What is written to memory that differs
    makes all that lies in it differ.

    uses: how many steps use each value. written: memory that a step writes to. summed: values that
    only a sum over all replicas uses. all_rows: lines that make sparse gradients for such sums, and
    so can take the ids of all replicas at once.
    """

    def __init__(self, aligned: Aligned, means: Mapping[Line, Meaning], cells: set[int]) -> None:
        self._values: set[Value] = set()
        self._storages: set[int] = set()
        self._means, self._cells = means, cells
        self.uses = Counter(value for step in aligned.steps for value in set(step.uses))
        self.written = {
            place
            for step in aligned.steps
            for place in (step.writes if isinstance(step, Kernel) else _places(step, means[step]))
        }
        self._lying = Counter(value.storage for value in aligned.counterparts)
        sums = (pair for mean in means.values() for pair in mean.pairs)
        self.summed = {given for given, _ in sums if self._is_used_once(given)}
        self.all_rows = self._sparse_sums(aligned)
        for value in aligned.counterparts:
            if value.constant is not None and aligned.constant_differs(value):
                self._add(value)
        before = -1
        while before != (now := len(self._values) + len(self._storages) + len(self._cells)):
            before = now
            for step in aligned.steps:
                if isinstance(step, Kernel):
                    self._kernel(step)
                else:
                    self._line(step, means[step])

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Value) and (
            value in self._values or value.storage in self._storages
        )

    @property
    def cells(self) -> set[int]:
        """The numbers of the variables that differ."""
        found = set(self._cells)
        for line, mean in self._means.items():
            values = {"load": line.stores, "store": line.loads}.get(mean.kind, {}).values()
            if any(value in self for value in values):
                found.add(mean.cell)
        return found

    def _is_used_once(self, value: Value) -> bool:
        alone = value.storage is None or self._lying[value.storage] == 1
        return self.uses[value] == 1 and alone and value.storage not in self.written

    def _sparse_sums(self, aligned: Aligned) -> set[Line]:
        makers: dict[Value, Line] = {}
        found: set[Line] = set()
        for step in aligned.steps:
            if not isinstance(step, Line) or step.op is None or len(step.stores) != 1:
                continue
            (out,) = step.stores.values()
            # Rows of the replicas one after the other are the sum over all.
            sparse = facts_of(step.op.type).gives_rows and step.op.attrs.get("is_sparse")
            given = step.loads.values()
            if sparse or (facts_of(step.op.type).adds and all(one in makers for one in given)):
                makers[out] = step
        wanted = [makers[value] for value in self.summed if value in makers]
        while wanted:
            line = wanted.pop()
            adds = line.op is not None and facts_of(line.op.type).adds
            parts = list(line.loads.values()) if adds else []
            if all(map(self._is_used_once, parts)):
                found.add(line)
                wanted += [makers[value] for value in parts]
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
        if mean.kind == "placeholder":  # all placeholders lie in the same memory
            self._values.update(line.stores.values())
            return
        for value in line.stores.values():
            self._add(value)
        if mean.overwrites:
            for value in line.loads.values():
                self._add(value)


def _places(line: Line, mean: Meaning) -> list[int]:
    """Memory that a line may write to."""
    return [value.storage or 0 for value in line.loads.values()] if mean.overwrites else []
