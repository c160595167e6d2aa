"""The Python source of one step for all replicas.

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

import ast
import copy

from refluid.ir.operator import Operator
from refluid.runtime.joined.align import Unlike
from refluid.runtime.joined.kernel_text import KernelText
from refluid.runtime.joined.lines import Meaning
from refluid.runtime.recorded.graph import Kernel, Line, Value
from refluid.runtime.recorded.text import Rename
from refluid.runtime.source import Source


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
        assert isinstance(line.statement, ast.Assign)
        target = line.statement.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for number, node in enumerate(names):
            assert isinstance(node, ast.Name)
            value = line.stores[node.id]
            if not self._uses[value]:
                continue
            self._one.add(value)
            assert value.layout is not None
            shape = value.layout.shape
            if len(shape) == 2:
                self.made_flat(value, f"F[{number}]")
            else:
                sizes = ", ".join(map(str, (self.size, *shape)))
                self._say(f"{value.name} = F[{number}].view({sizes})")

    def _load(self, line: Line, mean: Meaning) -> None:
        (value,) = line.stores.values()
        if value not in self._differing:
            self._say(f"{value.name} = C[0][{mean.cell}].value")
            return
        for rank in range(self.size):
            self._say(f"{value.name}_{rank} = C[{rank}][{mean.cell}].value")
        self._parts.add(value)

    def _store(self, line: Line, mean: Meaning) -> None:
        (value,) = line.loads.values()
        for rank in self._ranks():
            name = self._name(value)
            self._say(f"C[{rank}][{mean.cell}].value = {name}")

    def _sum(self, line: Line, mean: Meaning) -> None:
        for given, out in mean.pairs:
            if given in self._same and out not in self._differing:
                self._same[out] = self._same[given]
                continue
            if given in self._same:
                text = self._name(given)
            elif given in self._one and self._together:
                text = f"{self.stacked(given)}.sum(0)"
            else:
                text = f"total([{', '.join(self._each(given))}])"
            self._give(out, text, line.op)

    def _give(self, value: Value, text: str, op: Operator | None = None) -> None:
        """Assigns what is the same for all, to each where something overwrites it differently."""
        if value not in self._differing:
            self._say(f"{value.name} = {text}", op)
            return
        names = ", ".join(f"{value.name}_{rank}" for rank in range(self.size))
        self._say(f"{names} = each({text}, {self.size})", op)
        self._parts.add(value)

    def _ghost(self, line: Line, _mean: Meaning) -> None:
        (given,), (out,) = line.loads.values(), line.stores.values()
        if not self._uses[out] or given is out:
            return
        if out not in self._differing:
            self._say(f"{out.name} = {self._name(given)}")
            return
        for rank in self._ranks():
            self._say(f"{out.name}_{rank} = {self._name(given)}")
        self._parts.add(out)

    def _operator(self, line: Line, mean: Meaning) -> None:
        if line in self._rows:
            self._operator_for_all(line)
            return
        values = (*line.loads.values(), *line.stores.values())
        many = mean.draws or any(value in self._differing for value in values)
        for rank in self._ranks() if many else (0,):
            names = {name: self._name(value) for name, value in line.loads.items()}
            suffix = f"_{rank}"
            stores = {
                name: value.name + (suffix if value in self._differing else "")
                for name, value in line.stores.items()
            }
            renamed = Rename(names, stores).visit(copy.deepcopy(line.statement))
            self._say(ast.unparse(renamed), line.op)
        self._parts.update(value for value in line.stores.values() if value in self._differing)

    def _operator_for_all(self, line: Line) -> None:
        names = {name: self.stacked(value) for name, value in line.loads.items()}
        stores = {name: value.name for name, value in line.stores.items()}
        renamed = Rename(names, stores).visit(copy.deepcopy(line.statement))
        self._say(ast.unparse(renamed), line.op)
        self._same |= {value: Value(value.name) for value in line.stores.values()}

    def _branch(self, line: Line, mean: Meaning) -> None:
        """A branch that is the same for all replicas, as it stands."""
        if not self._differing.cells.isdisjoint(mean.cells):
            raise Unlike("the program has branches that differ between replicas")
        for name, value in line.loads.items():
            self._say(f"{name} = {self._name(value)}")
        held = {one: f"C[0][{one}].value" for one in mean.cells}
        text = ast.unparse(line.statement)
        for cell, own in held.items():
            text = text.replace(f"C[{cell}].value", own)
        self._say(text, line.op)
        for name, value in line.stores.items():
            self._give(value, name)
        for cell, own in held.items():
            for rank in range(1, self.size):
                self._say(f"C[{rank}][{cell}].value = {own}")

    def _return(self, line: Line, _mean: Meaning) -> None:
        assert isinstance(line.statement, ast.Return)
        assert isinstance(line.statement.value, ast.Tuple)
        results, _ = line.statement.value.elts
        assert isinstance(results, ast.Tuple)
        fetched = []
        for one in results.elts:
            node = one.args[0] if isinstance(one, ast.Call) else one
            value = line.loads.get(node.id) if isinstance(node, ast.Name) else None
            if value is None:
                fetched.append(f"[None] * {self.size}")
            else:
                fetched.append(self._fetched(value, kept=isinstance(one, ast.Call)))
        self._say(f"return [{', '.join(fetched)}]")

    def _fetched(self, value: Value, *, kept: bool) -> str:
        """What is returned of a value, which variables may hold too where it is `kept`."""
        if value not in self._differing:
            return f"each({self._name(value)}, {self.size})"
        if value in self._own and not kept:
            return self.stacked(value)
        return f"[{', '.join(f'own({part})' for part in self._each(value))}]"
