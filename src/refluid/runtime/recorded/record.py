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
from refluid.kernels.watching import LACKING
from refluid.runtime import pairing
from refluid.runtime.code import Code
from refluid.runtime.recorded.graph import Kernel, Line, Step, Value
from refluid.runtime.recorded.settled import (
    decided,
    gathered,
    is_ours,
    overwrites,
    settles,
    source_of,
)
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


@dataclass(frozen=True)
class Parsed:
    """A statement of a plan: how to run it, the names it reads and those it sets."""

    statement: ast.stmt
    code: CodeType
    loads: frozenset[str]
    stores: frozenset[str]


def statements(code: Code) -> list[Parsed]:
    """The statements of a plan's `step`."""
    with _parsing:
        function = ast.parse(code.source.text).body[0]
        assert isinstance(function, ast.FunctionDef)
        return [Parsed(one, _compiled(one, code.filename), *_names(one)) for one in function.body]


class Recorder:
    """Executes the statements of a plan's `step`, watching each. body: these, if known."""

    def __init__(self, code: Code, body: list[Parsed] | None = None) -> None:
        self.code = code
        self.body = statements(code) if body is None else body
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
        for parsed in self.body:
            if isinstance(parsed.statement, ast.Return):
                self._return(parsed)
            elif isinstance(parsed.statement, ast.Delete):
                self._delete(parsed.statement)
            else:
                self._statement(parsed)
        return self.result

    @property
    def recording(self) -> Recording:
        """What has been recorded."""
        steps: list[Step] = []
        for one in self.statements:
            steps += [one.line] if one.kernels is None else one.kernels
        return Recording(steps, self.last, self.refused)

    def check(self, feeds: Sequence[Tensor], cells: Sequence[Cell]) -> None:
        """Raises Refused where values would be taken for one another, or torch can't be watched."""
        if LACKING:
            raise Refused(f"this torch has no {LACKING[0]}")
        places: set[int] = set()
        for value in [*feeds, *(cell.value for cell in cells)]:
            if not isinstance(value, Tensor) or not value.numel():
                continue
            place = value.untyped_storage().data_ptr()
            if place in places:
                raise Refused("two of its variables share memory")
            places.add(place)

    # -- statements -----------------------------------------------------------

    def _statement(self, parsed: Parsed) -> None:
        outside, op = parsed.loads & _OUTSIDE, self.code.origin.get(parsed.statement.lineno)
        before = {name: self.bound[name] for name in parsed.loads & self.bound.keys()}
        traced = not outside and self._may_trace(parsed.statement, before, op)
        kernels = Kernels(self.values, "" if traced else "is a line")
        random = self.namespace["random"]
        random.seeded = False
        with kernels, Reads(kernels):
            exec(parsed.code, self.namespace)
        for kernel in kernels.kernels:
            kernel.op = op
        if random.seeded:
            kernels.refused = "draws the same random numbers in every step"
        reason = kernels.refused or self._unknown(parsed.stores)
        if reason and traced:
            self.refused[reason] = self.refused.get(reason, 0) + 1
        line = Line(parsed.statement, before, {}, op)
        settled = settles(op, before) and not kernels.unsettled
        line.stores = self._made(line, parsed.stores, settled, outside)
        if reason:
            self._make_anew(line)
        if kernels.refused and op is not None:  # who knows what it wrote
            touched = (*line.loads.values(), *line.stores.values())
            self.values.doubt({value.storage for value in touched})
        self._keep(line, None if reason else kernels.kernels)

    def _unknown(self, stores: frozenset[str]) -> str:
        """Why a traced statement's results cannot be told from its kernels; "" if they can."""
        for name in stores:
            thing = self.namespace.get(name)
            if isinstance(thing, Tensor):
                if self.values.find(thing) is None:
                    return "makes a tensor that no kernel made"
                if self.values.is_kept(thing):
                    return "gives away a constant, which others may write to"
            elif thing is not None and not isinstance(thing, pairing.Recording):
                return f"makes a {type(thing).__name__}"
        return ""

    def _made(
        self, line: Line, stores: frozenset[str], settled: bool, outside: frozenset[str]
    ) -> dict[str, Value]:
        """The values of the names that a statement set."""
        before, op = line.loads, line.op
        sure: set[str] = set()
        if not settled:
            sure = decided(op, self.code.names, self.last | before, self.namespace)
            for value in before.values():  # what it was given to fill may hold anything now
                value.settled &= value.storage is not None or value.plain
        made: dict[str, Value] = {}
        for name in stores & self.namespace.keys():
            thing = self.namespace[name]
            if not isinstance(thing, Tensor):
                made[name] = self.values.other(thing)
                # Of a variable that holds no tensor only the type is looked at.
                made[name].settled = settled and (thing is None or not outside)
                continue
            known = self.values.find(thing)
            same = overwrites(op) and known in before.values()
            fresh = settled and not gathered(thing, before, outside)
            if same or fresh or (name in sure and known is None):
                made[name] = self.values.add(thing)
            else:
                made[name] = self.values.apart(thing)
        return made

    def _make_anew(self, line: Line) -> None:
        """What a line makes is no constant, though a kernel's argument of the same memory was."""
        for name, value in line.stores.items():
            if value.constant is not None:
                line.stores[name] = self.values.made_anew(self.namespace[name])

    def _keep(self, line: Line, kernels: list[Kernel] | None = None) -> None:
        kept = _Statement(line, kernels)
        if kernels is None:
            # What reads autograd's recording of an operator needs that operator's own line.
            for value in line.loads.values():
                if value in self.tapes:
                    self.tapes[value].kernels = None
        else:
            self.tapes |= {value: kept for value in line.stores.values() if value.storage is None}
        self.statements.append(kept)
        self._bind(line.stores)

    def _bind(self, made: dict[str, Value]) -> None:
        self.bound.update(made)
        self.last.update(made)

    def _may_trace(
        self, statement: ast.stmt, before: dict[str, Value], op: Operator | None
    ) -> bool:
        if not isinstance(statement, ast.Assign | ast.Expr) or op is None:
            return False
        if not _is_pure(op) or not self._calls_plainly(statement):
            return False
        return all(
            value.settled and (value.storage is not None or value.plain or value in self.tapes)
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

    def _return(self, parsed: Parsed) -> None:
        self.result = eval(parsed.code, self.namespace)
        before = {name: self.bound[name] for name in parsed.loads & self.bound.keys()}
        self._keep(Line(parsed.statement, before, {}))


def _compiled(statement: ast.stmt, filename: str) -> CodeType:
    if isinstance(statement, ast.Return):
        assert statement.value is not None
        return compile(ast.Expression(statement.value), filename, "eval")
    return compile(ast.Module([statement], []), filename, "exec")


def _names(statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    loads: set[str] = set()
    stores: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else stores).add(node.id)
    return frozenset(loads), frozenset(stores - {"_"})


def _is_pure(op: Operator) -> bool:
    """Whether the operator's code is refluid's own and has no effect but its outputs."""
    source = source_of(op)
    return is_ours(op) and source is not None and not source.context - _KNOWN_CONTEXT
