"""The Python source of a recorded step."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from refluid.kernels.calls import FAST
from refluid.kernels.rows.lookup import look_up
from refluid.runtime.recorded.graph import Compiled, Entry, Kernel, Line, Step, Value
from refluid.runtime.source import Source


class Text:
    """Writes steps as the source of `step(F, C, L)`."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.source = Source("def step(F, C, L):")
        self.source.constants |= {k: v for k, v in namespace.items() if k not in {"F", "C", "L"}}
        self._constants = 0
        self._read: Container[Value] = ()

    def write(self, steps: Sequence[Step | Compiled]) -> Source:
        """All steps; every value is freed after its last use."""
        last = {value: index for index, step in enumerate(steps) for value in step.uses}
        self._read = last.keys()
        for index, step in enumerate(steps):
            if isinstance(step, Kernel):
                self._kernel(step)
            elif isinstance(step, Compiled):
                self._compiled(step)
            else:
                self._line(step)
            if isinstance(step, Line) and isinstance(step.statement, ast.Return):
                break
            outs = {value for value in step.outs if value is not None}
            if isinstance(step, Line) and not _is_simple(step.statement):
                outs &= last.keys()
            dead = {v for v in step.uses if last[v] == index and v.constant is None}
            dead |= {v for v in outs if v not in last}
            if dead:
                self.source.add(f"del {', '.join(sorted(v.name for v in dead))}")
        return self.source

    # -- kernels --------------------------------------------------------------

    def _kernel(self, kernel: Kernel) -> None:
        used = set(kernel.uses)
        call = self._call(kernel)
        names = [value.name if value and value not in used else "_" for value in kernel.outs]
        if all(name == "_" for name in names):
            self.source.add(call, kernel.op)
            return
        comma = "," if kernel.makes_several and len(names) == 1 else ""
        self.source.add(f"{', '.join(names)}{comma} = {call}", kernel.op)

    def _call(self, kernel: Kernel) -> str:
        parts = [self._of(one) for one in kernel.args]
        parts += [f"{name}={self._of(one)}" for name, one in kernel.kwargs.items()]
        return f"{self._function(kernel)}({', '.join(parts)})"

    def _function(self, kernel: Kernel) -> str:
        name = kernel.func.overloadpacket.__name__
        function: Callable[..., Any] = kernel.func
        if kernel.func.namespace == "aten" and "out" not in kernel.kwargs:
            sparse = kernel.op is not None and bool(kernel.op.attrs.get("is_sparse"))
            function = look_up if sparse and name == "embedding" else FAST.get(name, function)
        return self.source.constant(f"{name}_kernel", function)

    def _of(self, one: Any) -> str:
        if isinstance(one, Value):
            return self._name(one)
        if isinstance(one, Entry):
            return one.text
        if isinstance(one, list | tuple):
            parts = [self._of(item) for item in one]
            inner = ", ".join(parts) + ("," if len(parts) == 1 and isinstance(one, tuple) else "")
            return f"[{inner}]" if isinstance(one, list) else f"({inner})"
        if one is None or isinstance(one, bool | int | str):
            return repr(one)
        if isinstance(one, float) and math.isfinite(one):
            return repr(one)
        self._constants += 1
        return self.source.constant(f"c{self._constants}", one)

    def _name(self, value: Value) -> str:
        if isinstance(value.constant, Entry):
            return value.constant.text
        if value.constant is not None:
            return self.source.constant(value.name, value.constant)
        return value.name

    def _compiled(self, step: Compiled) -> None:
        function = self.source.constant("compiled", step.function)
        call = f"{function}({', '.join(map(self._name, step.ins))})"
        names = [value.name for value in step.outs if value is not None]
        self.source.add(f"{', '.join(names)}, = {call}" if names else call)

    # -- lines of the plan ----------------------------------------------------

    def _line(self, line: Line) -> None:
        statement = line.statement
        if _is_simple(statement):
            names = {name: self._name(value) for name, value in line.loads.items()}
            stores = {name: value.name for name, value in line.stores.items()}
            renamed = Rename(names, stores).visit(copy.deepcopy(statement))
            self.source.add(ast.unparse(renamed), line.op)
            return
        # A loop or branch may leave names unset, or delete them, in one step and not in another.
        inside = sorted(line.loads.keys() | line.stores.keys())
        for name in inside:
            given = self._name(line.loads[name]) if name in line.loads else None
            self.source.add(f"{name} = {given}")
        for text in ast.unparse(statement).splitlines():
            self.source.add(text, line.op)
        for name, value in line.stores.items():
            if value in self._read:
                self.source.add(f"{value.name} = {name}")
        if inside:
            self.source.add(f"{' = '.join(inside)} = None")


def _is_simple(statement: ast.stmt) -> bool:
    """Whether a statement has no statements inside."""
    return isinstance(statement, ast.Assign | ast.Expr | ast.Return)


class Rename(ast.NodeTransformer):
    """Gives the names of a statement those of the values."""

    def __init__(self, loads: Mapping[str, str], stores: Mapping[str, str]) -> None:
        self.loads, self.stores = loads, stores

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """A name is renamed by what happens to it."""
        names = self.loads if isinstance(node.ctx, ast.Load) else self.stores
        return ast.Name(names.get(node.id, node.id), node.ctx)
