"""The steps of a plan that calls the kernels of a recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from refluid.ir.operator import Operator
from refluid.kernels.calls import FAST
from refluid.kernels.rows.lookup import look_up
from refluid.kernels.watching import OpOverload
from refluid.runtime.recorded.graph import Compiled, Entry, Kernel, Line, Part, Value
from refluid.runtime.source import Source
from refluid.runtime.steps import Bind, Call, Clear, Compound, Free, Return, Step
from refluid.runtime.trees import IGNORED, Known, Name, Tree, mapped


class Text:
    """Writes what was recorded as the steps of `step(F, C, L)`."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.source = Source(namespace)
        self._constants = 0
        self._read: Container[Value] = ()

    def write(self, parts: Sequence[Part | Compiled]) -> Source:
        """All parts; every value is freed after its last use."""
        last = {value: index for index, part in enumerate(parts) for value in part.uses}
        self._read = last.keys()
        for index, part in enumerate(parts):
            if isinstance(part, Kernel):
                self._kernel(part)
            elif isinstance(part, Compiled):
                self._compiled(part)
            else:
                self._line(part)
            if isinstance(part, Line) and isinstance(part.step, Return):
                break
            outs = {value for value in part.outs if value is not None}
            if isinstance(part, Line) and isinstance(part.step, Compound):
                outs &= last.keys()
            dead = {v for v in part.uses if last[v] == index and v.constant is None}
            dead |= {v for v in outs if v not in last}
            if dead:
                self.source.add(Free(tuple(sorted(Name(value.name) for value in dead))))
        return self.source

    # -- kernels --------------------------------------------------------------

    def _kernel(self, kernel: Kernel) -> None:
        used = set(kernel.uses)
        new = [value if value and value not in used else None for value in kernel.outs]
        target = targets(kernel, [Name(value.name) if value else None for value in new])
        args, kwargs = self._of((kernel.args, kernel.kwargs))
        function = self._function(kernel.func, kernel.kwargs, kernel.op)
        self.source.add(Call(target, function, args, kwargs, op=kernel.op))

    def _function(
        self, func: OpOverload, given: Container[str] = (), op: Operator | None = None
    ) -> Known:
        """What is called: the quickest for a kernel with arguments of the names `given`."""
        name = func.overloadpacket.__name__
        function: Callable[..., Any] = func
        if func.namespace == "aten" and "out" not in given:
            sparse = op is not None and bool(op.attrs.get("is_sparse"))
            function = look_up if sparse and name == "embedding" else FAST.get(name, function)
        return self.source.constant(f"{name}_kernel", function)

    def _of(self, tree: Any) -> Tree:
        """What a kernel was given, as a step is given it."""
        return mapped(tree, self._leaf)

    def _leaf(self, one: Any) -> Tree:
        if isinstance(one, Value):
            return self._name(one)
        if isinstance(one, Entry):
            return one.found
        if one is None or isinstance(one, bool | int | str):
            return one
        if isinstance(one, float) and math.isfinite(one):
            return one
        self._constants += 1
        return self.source.constant(f"c{self._constants}", one)

    def _name(self, value: Value) -> Tree:
        if isinstance(value.constant, Entry):
            return value.constant.found
        if value.constant is not None:
            return self.source.constant(value.name, value.constant)
        return Name(value.name)

    def _compiled(self, part: Compiled) -> None:
        function = self.source.constant("compiled", part.function)
        names = tuple(Name(value.name) for value in part.outs if value is not None)
        self.source.add(Call(names or None, function, tuple(map(self._name, part.ins))))

    # -- lines of the plan ----------------------------------------------------

    def _line(self, line: Line) -> None:
        if not isinstance(line.step, Compound):
            names = {name: self._name(value) for name, value in line.loads.items()}
            stores = {name: Name(value.name) for name, value in line.stores.items()}
            self.source.add(with_names(line.step, names, stores))
            return
        # A loop or branch may leave names unset, or delete them, in one step and not in another.
        inside = sorted(line.loads.keys() | line.stores.keys())
        for name in inside:
            self.source.add(
                Bind(name, self._name(line.loads[name]) if name in line.loads else None)
            )
        self.source.add(line.step)
        for name, value in line.stores.items():
            if value in self._read:
                self.source.add(Bind(Name(value.name), name))
        if inside:
            self.source.add(Clear(tuple(inside)))


def targets(kernel: Kernel, names: Sequence[Name | None]) -> Tree:
    """What the results of a kernel are assigned to; None where they have no names."""
    if not any(names):
        return None
    if len(names) == 1 and not kernel.makes_several:
        return names[0]
    return tuple(name or IGNORED for name in names)


def with_names(step: Step, taken: Mapping[Name, Tree], given: Mapping[Name, Tree]) -> Step:
    """The step with other names of what it takes and of what it sets."""
    return step.renamed(
        lambda one: taken.get(one, one) if isinstance(one, Name) else one,
        lambda one: given.get(one, one) if isinstance(one, Name) else one,
    )
