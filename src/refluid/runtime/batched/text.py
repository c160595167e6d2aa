"""One step for all replicas.

def step(F, C, L):
    z1_f = F[0]
    z3 = C[0][0].value
    z34_f = addmm(z4, z1_f, z3)
    ...

`F` are the fed tensors, with the rows of all replicas, and `C` the cells of each. What is the same
for all replicas is one value, computed once; what differs is `z34` where the replicas' values are
stacked in one tensor, `z34_f` where that is one matrix of all their rows, or `z34_0`, `z34_1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.batched.align import Aligned, Unlike
from refluid.runtime.batched.differing import Differing
from refluid.runtime.batched.exchange import each, total
from refluid.runtime.batched.kernels import BatchedKernels
from refluid.runtime.batched.lines import Meaning
from refluid.runtime.batched.values import BatchedValues
from refluid.runtime.recorded.graph import Kernel, Line, Value
from refluid.runtime.recorded.text import with_names
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind, Call, Load, Return, Store
from refluid.runtime.trees import (
    FED,
    OWN,
    CellName,
    Formula,
    Name,
    Tree,
    called,
    entry,
    method,
    value_of,
)


class BatchedText:
    """Writes the step: what is fed, kernels, operators that stay as they are, and what is kept.

    together: kernels are called once for all replicas where that can be; else each makes its own.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        aligned: Aligned,
        means: Mapping[Line, Meaning],
        differing: Differing,
        *,
        together: bool,
    ) -> None:
        self._aligned, self._means, self._differing = aligned, means, differing
        self._together = together
        self._to = BatchedValues(namespace, aligned, differing)
        self._spelling, self.size = self._to.spelling, aligned.size
        self._kernels = BatchedKernels(self._to, together=together)
        self._total = self._spelling.source.constant("total", total)
        self._copies = self._spelling.source.constant("each", each)

    @property
    def calls(self) -> int:
        """How many steps there are."""
        return len(self._spelling.steps)

    def write(self) -> PlanSource:
        """All steps; every value is freed after its last use."""
        for step in self._aligned.steps:
            if isinstance(step, Kernel):
                self._kernels.write(step)
            else:
                self._line(step, self._means[step])
        return self._spelling.finished()

    def _line(self, line: Line, mean: Meaning) -> None:
        makers = {
            "feeds": self._feeds,
            "load": self._load,
            "store": self._store,
            "sum": self._sum,
            "placeholder": self._placeholder,
            "return": self._return,
            "operator": self._operator,
            "branch": self._branch,
        }
        if mean.kind in makers:
            makers[mean.kind](line, mean)

    def _feeds(self, line: Line, _mean: Meaning) -> None:
        assert isinstance(line.step, Bind)
        for number, name in enumerate(line.step.target):
            value = line.stores[name]
            if not self._differing.uses[value]:
                continue
            self._to.one.add(value)
            assert value.layout is not None
            shape, fed = value.layout.shape, entry(FED, number)
            if len(shape) == 2:
                self._to.made_flat(value, fed)
            else:
                self._to.set(Name(value.name), method(fed, "view", self.size, *shape))

    def _load(self, line: Line, mean: Meaning) -> None:
        (value,) = line.stores.values()
        if value not in self._differing:
            self._spelling.add(Load(Name(value.name), CellName(mean.cell, 0)))
            return
        for rank, name in enumerate(self._to.of_each(value)):
            self._spelling.add(Load(name, CellName(mean.cell, rank)))
        self._to.parts.add(value)

    def _store(self, line: Line, mean: Meaning) -> None:
        (value,) = line.loads.values()
        for rank in self._to.ranks():
            self._spelling.add(Store(CellName(mean.cell, rank), self._to.name(value)))

    def _sum(self, line: Line, mean: Meaning) -> None:
        for given, out in mean.pairs:
            if given in self._to.same and out not in self._differing:
                self._to.same[out] = self._to.same[given]
                continue
            if given in self._to.same:
                result = self._to.name(given)
            elif given in self._to.one and self._together:
                result = method(self._to.stacked(given), "sum", 0)
            else:
                result = called(self._total, self._to.each(given))
            self._give(out, result, line.op)

    def _give(self, value: Value, result: Tree, op: Operator | None = None) -> None:
        """Assigns what is the same for all, to each where something overwrites it differently."""
        if value not in self._differing:
            self._to.set(Name(value.name), result, op)
            return
        self._to.set(self._to.of_each(value), called(self._copies, result, self.size), op)
        self._to.parts.add(value)

    def _placeholder(self, line: Line, _mean: Meaning) -> None:
        (given,), (out,) = line.loads.values(), line.stores.values()
        if not self._differing.uses[out] or given is out:
            return
        if out not in self._differing:
            self._to.set(Name(out.name), self._to.name(given))
            return
        for rank in self._to.ranks():
            self._to.set(self._to.of_each(out)[rank], self._to.name(given))
        self._to.parts.add(out)

    def _operator(self, line: Line, mean: Meaning) -> None:
        if self._together and line in self._differing.all_rows:
            self._operator_for_all(line)
            return
        values = (*line.loads.values(), *line.stores.values())
        many = mean.draws or any(value in self._differing for value in values)
        for rank in self._to.ranks() if many else (0,):
            names = {name: self._to.name(value) for name, value in line.loads.items()}
            stores = {
                name: self._to.of_each(value)[rank]
                if value in self._differing
                else Name(value.name)
                for name, value in line.stores.items()
            }
            self._spelling.add(with_names(line.step, names, stores))
        self._to.parts.update(value for value in line.stores.values() if value in self._differing)

    def _operator_for_all(self, line: Line) -> None:
        tables = _tables(line)  # of which the height alone is asked for
        names = {
            name: self._to.each(value)[0] if name in tables else self._to.stacked(value)
            for name, value in line.loads.items()
        }
        stores = {name: Name(value.name) for name, value in line.stores.items()}
        self._spelling.add(with_names(line.step, names, stores))
        self._to.same |= {value: Value(value.name) for value in line.stores.values()}

    def _branch(self, line: Line, mean: Meaning) -> None:
        """A branch that is the same for all replicas, as it stands."""
        if not self._differing.cells.isdisjoint(mean.cells):
            raise Unlike("the program has branches that differ between replicas")
        self._spelling.kept |= line.step.reads | line.step.writes
        for name, value in line.loads.items():
            self._to.set(name, self._to.name(value))
        self._spelling.add(line.step.renamed(_of_replica_0))
        for name, value in line.stores.items():
            self._give(value, name)
        for cell in mean.cells:
            for rank in range(1, self.size):
                self._spelling.add(Store(CellName(cell, rank), value_of(CellName(cell, 0))))

    def _return(self, line: Line, _mean: Meaning) -> None:
        assert isinstance(line.step, Return)
        fetched: list[Tree] = []
        for one in line.step.value[0]:
            kept = isinstance(one, Formula)
            value = line.loads.get(one.parts[-1] if isinstance(one, Formula) else one)
            if value is None:
                fetched.append([None] * self.size)
            else:
                fetched.append(self._fetched(value, kept=kept))
        self._spelling.add(Return(fetched))

    def _fetched(self, value: Value, *, kept: bool) -> Tree:
        """What is returned of a value, which variables may hold too where it is `kept`."""
        if value not in self._differing:
            return called(self._copies, self._to.name(value), self.size)
        if value in self._to.own and not kept:
            return self._to.stacked(value)
        return [called(OWN, part) for part in self._to.each(value)]


def _tables(line: Line) -> set[Tree]:
    """What a call is given as the tables whose rows its result has."""
    definition = None if line.op is None else find(line.op.type)
    if definition is None or not isinstance(line.step, Call):
        return set()
    given = zip(definition.inputs, line.step.args, strict=False)
    return {one for slot, one in given if slot.name in definition.rows and isinstance(one, Name)}


def _of_replica_0(one: Tree) -> Tree:
    return CellName(one.number, 0) if isinstance(one, CellName) else one
