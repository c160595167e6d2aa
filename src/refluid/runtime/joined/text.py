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

from refluid.ir.operator import Operator
from refluid.runtime.joined.align import Unlike
from refluid.runtime.joined.kernel_text import KernelText
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.recorded.graph import Kernel, Line, Value
from refluid.runtime.recorded.text import with_names
from refluid.runtime.source import Source
from refluid.runtime.steps import Bind, Load, Return, Store
from refluid.runtime.trees import (
    FED,
    OWN,
    Cell,
    Formula,
    Name,
    Tree,
    called,
    entry,
    method,
    value_of,
)


class JointText(KernelText):
    """Writes the step: what is fed, kernels, operators that stay as they are, and what is kept."""

    def write_joint(self) -> Source:
        """All steps; every value is freed after its last use."""
        for step in self._joint.steps:
            if isinstance(step, Kernel):
                self._joint_kernel(step)
            else:
                self._joint_line(step, self._means[step])
        self._free_after_last_use()
        return self.source

    def _joint_line(self, line: Line, mean: Meaning) -> None:
        makers = {
            "feeds": self._feeds,
            "load": self._load,
            "store": self._store,
            "sum": self._sum,
            "ghost": self._ghost,
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
            if not self._uses[value]:
                continue
            self._one.add(value)
            assert value.layout is not None
            shape, fed = value.layout.shape, entry(FED, number)
            if len(shape) == 2:
                self.made_flat(value, fed)
            else:
                self._set(Name(value.name), method(fed, "view", self.size, *shape))

    def _load(self, line: Line, mean: Meaning) -> None:
        (value,) = line.stores.values()
        if value not in self._differing:
            self._say(Load(Name(value.name), Cell(mean.cell, 0)))
            return
        for rank, name in enumerate(self._of_each(value)):
            self._say(Load(name, Cell(mean.cell, rank)))
        self._parts.add(value)

    def _store(self, line: Line, mean: Meaning) -> None:
        (value,) = line.loads.values()
        for rank in self._ranks():
            self._say(Store(Cell(mean.cell, rank), self._name(value)))

    def _sum(self, line: Line, mean: Meaning) -> None:
        for given, out in mean.pairs:
            if given in self._same and out not in self._differing:
                self._same[out] = self._same[given]
                continue
            if given in self._same:
                result = self._name(given)
            elif given in self._one and self._together:
                result = method(self.stacked(given), "sum", 0)
            else:
                result = called(self._total, self._each(given))
            self._give(out, result, line.op)

    def _give(self, value: Value, result: Tree, op: Operator | None = None) -> None:
        """Assigns what is the same for all, to each where something overwrites it differently."""
        if value not in self._differing:
            self._set(Name(value.name), result, op)
            return
        self._set(self._of_each(value), called(self._copies, result, self.size), op)
        self._parts.add(value)

    def _ghost(self, line: Line, _mean: Meaning) -> None:
        (given,), (out,) = line.loads.values(), line.stores.values()
        if not self._uses[out] or given is out:
            return
        if out not in self._differing:
            self._set(Name(out.name), self._name(given))
            return
        for rank in self._ranks():
            self._set(self._of_each(out)[rank], self._name(given))
        self._parts.add(out)

    def _operator(self, line: Line, mean: Meaning) -> None:
        if line in self._rows:
            self._operator_for_all(line)
            return
        values = (*line.loads.values(), *line.stores.values())
        many = mean.draws or any(value in self._differing for value in values)
        for rank in self._ranks() if many else (0,):
            names = {name: self._name(value) for name, value in line.loads.items()}
            stores = {
                name: self._of_each(value)[rank] if value in self._differing else Name(value.name)
                for name, value in line.stores.items()
            }
            self._say(with_names(line.step, names, stores))
        self._parts.update(value for value in line.stores.values() if value in self._differing)

    def _operator_for_all(self, line: Line) -> None:
        names = {name: self.stacked(value) for name, value in line.loads.items()}
        stores = {name: Name(value.name) for name, value in line.stores.items()}
        self._say(with_names(line.step, names, stores))
        self._same |= {value: Value(value.name) for value in line.stores.values()}

    def _branch(self, line: Line, mean: Meaning) -> None:
        """A branch that is the same for all replicas, as it stands."""
        if not self._differing.cells.isdisjoint(mean.cells):
            raise Unlike("the program has branches that differ between replicas")
        self._plans_own |= line.step.reads | line.step.writes
        for name, value in line.loads.items():
            self._set(name, self._name(value))
        self._say(line.step.renamed(_of_replica_0))
        for name, value in line.stores.items():
            self._give(value, name)
        for cell in mean.cells:
            for rank in range(1, self.size):
                self._say(Store(Cell(cell, rank), value_of(Cell(cell, 0))))

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
        self._say(Return(fetched))

    def _fetched(self, value: Value, *, kept: bool) -> Tree:
        """What is returned of a value, which variables may hold too where it is `kept`."""
        if value not in self._differing:
            return called(self._copies, self._name(value), self.size)
        if value in self._own and not kept:
            return self.stacked(value)
        return [called(OWN, part) for part in self._each(value)]


def _of_replica_0(one: Tree) -> Tree:
    return Cell(one.number, 0) if isinstance(one, Cell) else one
