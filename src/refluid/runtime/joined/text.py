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

from torch import Tensor

from refluid.ir.operator import Operator
from refluid.kernels.watching import gives_view, name_of
from refluid.runtime.joined.align import Unlike
from refluid.runtime.joined.batched import batched, empty
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.joined.names import WRITTEN, Names
from refluid.runtime.joined.rules import SUMMED, rule_of
from refluid.runtime.recorded.graph import Kernel, Line, Value
from refluid.runtime.recorded.text import targets, with_names
from refluid.runtime.source import Source
from refluid.runtime.steps import Bind, Load, Return, Store
from refluid.runtime.trees import (
    FED,
    IGNORED,
    OWN,
    CellName,
    Formula,
    Name,
    Tree,
    called,
    entry,
    mapped,
    method,
    value_of,
)


class JointText(Names):
    """Writes the step: what is fed, kernels, operators that stay as they are, and what is kept.

    together: kernels are called once for all replicas where that can be; else each makes its own.
    """

    def write_joint(self) -> Source:
        """All steps; every value is freed after its last use."""
        for step in self._joint.steps:
            if isinstance(step, Kernel):
                self._joint_kernel(step)
            else:
                self._joint_line(step, self._means[step])
        self._free_after_last_use()
        return self.source

    # -- kernels --------------------------------------------------------------

    def _joint_kernel(self, kernel: Kernel) -> None:
        if not any(value in self._differing for value in (*kernel.uses, *kernel.outs) if value):
            self._kernel_of(kernel, "")
            return
        if "convolution" in name_of(kernel.func):
            raise Unlike("convolutions are not computed for all replicas at once")
        if not (self._together and self._call_together(kernel)):
            for rank in self._ranks():
                self._kernel_of(kernel, f"_{rank}")
            self._parts.update(value for value in kernel.outs if value is not None)

    def _kernel_of(self, kernel: Kernel, suffix: str) -> None:
        """The call as recorded, of one replica or for all."""
        args, kwargs = self._of((kernel.args, kernel.kwargs))
        self._assign(kernel, self.call(kernel, *args, **kwargs), suffix)

    def _assign(self, kernel: Kernel, call: Tree, suffix: str) -> None:
        used = set(kernel.uses)
        names = [
            Name(f"{value.name}{suffix}") if value and value not in used else None
            for value in kernel.outs
        ]
        self._set(targets(kernel, names), call, kernel.op)

    def _call_together(self, kernel: Kernel) -> bool:
        outs = [value for value in kernel.outs if value is not None]
        name = name_of(kernel.func)
        if len(outs) == 1 and outs[0] in self._differing.summed and name in SUMMED:
            call = SUMMED[name](self, kernel)
            if call is not None:
                self._set(Name(outs[0].name), call, kernel.op)
                self._same[outs[0]] = Value(outs[0].name)
                return True
        if kernel.draws or not self._in_place(kernel):
            return False
        first = next(kernel.uses, None)
        views = gives_view(kernel.func)
        if name == "t" and first in self._one and outs[0] is not first:
            self._turned[outs[0]] = first
            return True
        if views and first not in self._one:
            return False
        rule = rule_of(kernel)
        call = rule(self, kernel) if rule is not None else None
        if call is None and not self._batched(kernel):
            return False
        if call is not None and call is not WRITTEN:
            self._assign(kernel, call, "")
        new = set(outs).difference(kernel.uses)
        self._one |= new
        if not views or first in self._own:
            self._own |= new
        return True

    def _batched(self, kernel: Kernel) -> bool:
        """Writes the calls that vmap makes of one; whether there are some."""
        used = list(dict.fromkeys(kernel.uses))
        if any(value.layout is None for value in used):
            return False
        given = {value: self._empty(value) for value in used}
        found = batched(kernel, given, self._differing, self.size)
        if found is None:
            return False
        calls, results = found
        names: dict[int, Tree] = {id(one): self.stacked(value) for value, one in given.items()}
        outs = list(zip(kernel.outs, results, strict=True))
        ends = {id(one): Name(value.name) for value, one in outs if value and value not in given}
        for number, call in enumerate(calls):
            args, kwargs = self._of(mapped(call.given, lambda one: names.get(id(one), one)))
            made = call.made if isinstance(call.made, list | tuple) else (call.made,)
            target = [IGNORED] * len(made)
            for place, one in enumerate(made):
                if id(one) not in names:
                    between = Name(f"{next(iter(ends.values()))}_{number}_{place}")
                    names[id(one)] = target[place] = ends.get(id(one), between)
            several = isinstance(call.made, list | tuple)
            written = called(self._function(call.func, kwargs), *args, **kwargs)
            self._set(tuple(target) if several else target[0], written, kernel.op)
        for one, name in ends.items():
            if names[one] != name:  # it is what was given
                self._set(name, names[one], kernel.op)
        self._empties |= {value: one for value, one in outs if value}
        return True

    def _empty(self, value: Value) -> Tensor:
        """A tensor without elements like what is given of a value."""
        assert value.layout is not None
        if value not in self._differing:
            return empty(value.layout)
        known = self._empties.get(value)
        return empty(value.layout, self.size) if known is None else known

    def _in_place(self, kernel: Kernel) -> bool:
        """Whether all memory that the kernel writes is one tensor for all replicas."""
        written = [value for value in kernel.uses if value.storage in kernel.writes]
        return all(value in self._own for value in written) if kernel.writes else True

    # -- lines ----------------------------------------------------------------

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
            if not self._differing.uses[value]:
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
            self._say(Load(Name(value.name), CellName(mean.cell, 0)))
            return
        for rank, name in enumerate(self._of_each(value)):
            self._say(Load(name, CellName(mean.cell, rank)))
        self._parts.add(value)

    def _store(self, line: Line, mean: Meaning) -> None:
        (value,) = line.loads.values()
        for rank in self._ranks():
            self._say(Store(CellName(mean.cell, rank), self._name(value)))

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
        if not self._differing.uses[out] or given is out:
            return
        if out not in self._differing:
            self._set(Name(out.name), self._name(given))
            return
        for rank in self._ranks():
            self._set(self._of_each(out)[rank], self._name(given))
        self._parts.add(out)

    def _operator(self, line: Line, mean: Meaning) -> None:
        if self._together and line in self._differing.all_rows:
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
                self._say(Store(CellName(cell, rank), value_of(CellName(cell, 0))))

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
    return CellName(one.number, 0) if isinstance(one, CellName) else one
