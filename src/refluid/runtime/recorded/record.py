"""Runs a step statement by statement and lists what it did: kernels, and lines that must stay."""

from __future__ import annotations

import ast
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torch import Tensor

from refluid.analysis.liveness import Key
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime import pairing
from refluid.runtime.code import Code
from refluid.runtime.recorded.graph import Kernel, Line, Step, Value
from refluid.runtime.recorded.trace import Kernels, Reads, Values
from refluid.runtime.scope import Cell

# Names of a plan that stand for more than a function or an attribute.
_OUTSIDE = frozenset({"F", "C", "L", "comm"})

# CPython 3.11 converts only one syntax tree at a time.
_parsing = threading.Lock()
_KNOWN_CONTEXT = frozenset({"need", "counts", "device", "random"})


@dataclass
class Recording:
    """One step: what it did in order, and for each name of the plan its last value."""

    steps: list[Step]
    names: dict[str, Value]
    refused: dict[str, int]

    def names_of(self, code: Code) -> dict[Key, str]:
        """The Python name of each variable of the program, in what is written of the recording."""
        last = self.names
        return {key: last[name].name for key, name in code.names.items() if name in last}


class Refused(Exception):
    """This step cannot be recorded at all."""


@dataclass(eq=False)
class _Statement:
    """A statement's kernels, and the line it is if they can't be used."""

    line: Line
    kernels: list[Kernel] | None


class Recorder:
    """Executes the statements of a plan's `step`, watching each."""

    def __init__(self, code: Code) -> None:
        self.code = code
        with _parsing:
            function = ast.parse(code.source.text).body[0]
            assert isinstance(function, ast.FunctionDef)
            self.body = [(one, _compiled(one, code.filename)) for one in function.body]
        self.namespace: dict[str, Any] = dict(code.source.constants)
        self.values = Values()
        self.bound: dict[str, Value] = {}
        self.last: dict[str, Value] = {}
        self.statements: list[_Statement] = []
        self.refused: dict[str, int] = {}
        self.tapes: dict[Value, _Statement] = {}
        self.result: Any = None

    def run(self, feeds: Sequence[Tensor], cells: Sequence[Any], levels: Sequence[Any]) -> Any:
        """Runs the step for real, and returns what it returns.

        Raises EnforceNotMet naming the operator and the user's line when one fails.
        """
        return self.code.with_step(self._run).run(feeds, cells, levels)

    def _run(self, feeds: Sequence[Tensor], cells: Sequence[Any], levels: Sequence[Any]) -> Any:
        self.namespace.update(F=feeds, C=cells, L=levels)
        for statement, compiled in self.body:
            if isinstance(statement, ast.Return):
                self._return(statement, compiled)
            elif isinstance(statement, ast.Delete):
                self._delete(statement)
            else:
                self._statement(statement, compiled)
        return self.result

    @property
    def recording(self) -> Recording:
        """What has been recorded."""
        steps: list[Step] = []
        for one in self.statements:
            steps += [one.line] if one.kernels is None else one.kernels
        return Recording(steps, self.last, self.refused)

    def check(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        """Raises Refused where values would be taken for one another."""
        places: set[int] = set()
        for value in [*feeds, *(cell.value for cell in cells)]:
            if not isinstance(value, Tensor) or not value.numel():
                continue
            place = value.untyped_storage().data_ptr()
            if place in places:
                raise Refused("two of its variables share memory")
            places.add(place)

    # -- statements -----------------------------------------------------------

    def _statement(self, statement: ast.stmt, compiled: CodeType) -> None:
        loads, stores = _names(statement)
        loads &= self.bound.keys() | (loads & _OUTSIDE)
        op = self._op_of(statement)
        before = {name: self.bound[name] for name in loads & self.bound.keys()}
        if not self._may_trace(statement, loads, before, op):
            exec(compiled, self.namespace)
            self._keep(statement, before, stores, op)
            return
        kernels, random = Kernels(self.values), self.namespace["random"]
        random.seeded = False
        with kernels, Reads(kernels):
            exec(compiled, self.namespace)
        for kernel in kernels.kernels:
            kernel.op = op
        if random.seeded:
            kernels.refused = "draws the same random numbers in every step"
        reason = kernels.refused or self._unknown(stores)
        if reason:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        self._keep(statement, before, stores, op, None if reason else kernels.kernels)

    def _unknown(self, stores: set[str]) -> str:
        """Why a traced statement's results cannot be told from its kernels; "" if they can."""
        for name in stores:
            thing = self.namespace.get(name)
            if isinstance(thing, Tensor):
                if self.values.find(thing) is None:
                    return "makes a tensor that no kernel made"
            elif thing is not None and not isinstance(thing, pairing.Recording):
                return f"makes a {type(thing).__name__}"
        return ""

    def _keep(
        self,
        statement: ast.stmt,
        before: dict[str, Value],
        stores: set[str],
        op: Operator | None,
        kernels: list[Kernel] | None = None,
    ) -> None:
        made: dict[str, Value] = {}
        for name in stores & self.namespace.keys():
            thing = self.namespace[name]
            known = isinstance(thing, Tensor)
            made[name] = self.values.add(thing) if known else self.values.other(thing)
        kept = _Statement(Line(statement, before, made, op), kernels)
        if kernels is None:
            # What reads autograd's recording of an operator needs that operator's own line.
            for value in before.values():
                if value in self.tapes:
                    self.tapes[value].kernels = None
        else:
            self.tapes |= {value: kept for value in made.values() if value.storage is None}
        self.statements.append(kept)
        self._bind(made)

    def _bind(self, made: dict[str, Value]) -> None:
        self.bound.update(made)
        self.last.update(made)

    def _may_trace(
        self,
        statement: ast.stmt,
        loads: set[str],
        before: dict[str, Value],
        op: Operator | None,
    ) -> bool:
        if not isinstance(statement, ast.Assign | ast.Expr) or op is None:
            return False
        if _reaches_out(statement) or not _is_ours(op) or not self._calls_plainly(statement):
            return False
        return all(
            value.storage is not None or value.plain or value in self.tapes
            for value in before.values()
        )

    def _calls_plainly(self, statement: ast.Assign | ast.Expr) -> bool:
        """Whether it calls an operator's own code, rather than that under settings of torch."""
        call = statement.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return True
        module = getattr(self.namespace[call.func.id], "__module__", "")
        return module.startswith("refluid.ops.") or module == pairing.__name__

    def _delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            assert isinstance(target, ast.Name)
            self.namespace.pop(target.id, None)
            self.bound.pop(target.id, None)

    def _return(self, statement: ast.Return, compiled: CodeType) -> None:
        self.result = eval(compiled, self.namespace)
        loads, _ = _names(statement)
        self._keep(statement, {n: self.bound[n] for n in loads if n in self.bound}, set(), None)

    def _op_of(self, statement: ast.stmt) -> Operator | None:
        return self.code.origin.get(statement.lineno)


def _compiled(statement: ast.stmt, filename: str) -> CodeType:
    if isinstance(statement, ast.Return):
        assert statement.value is not None
        return compile(ast.Expression(statement.value), filename, "eval")
    return compile(ast.Module([statement], []), filename, "exec")


def _names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    loads: set[str] = set()
    stores: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else stores).add(node.id)
    return loads, stores - {"_"}


def _reaches_out(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Name) and n.id in _OUTSIDE for n in ast.walk(statement))


def _is_ours(op: Operator) -> bool:
    """Whether the operator's code is refluid's own and has no effect but its outputs."""
    definition = find(op.type)
    source = definition.forward if definition and definition.body is None else definition
    if source is None or source.body is None or source.context - _KNOWN_CONTEXT:
        return False
    return source.body.__module__.startswith("refluid.ops.")
