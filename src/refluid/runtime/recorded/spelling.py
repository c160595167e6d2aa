"""What steps of recorded kernels are made of: functions, constants and values, each by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

from refluid.ir.operator import Operator
from refluid.kernels.calls import FAST
from refluid.kernels.rows.lookup import look_up
from refluid.kernels.watching import OpOverload
from refluid.runtime.recorded.graph import Entry, Value
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Free, Step
from refluid.runtime.trees import Known, Name, Reference, Tree, mapped


class Spelling:
    """The steps written so far, and how values and functions stand in them.

    namespace: the constants of the plan. named: how a value that is no constant for all stands in
    a step, as `plain` gives it where that is None. kept: names that aren't given up.
    """

    def __init__(
        self, namespace: Mapping[str, Any], named: Callable[[Value], Tree] | None = None
    ) -> None:
        self.source = PlanSource(namespace)
        self.steps: list[Step] = []
        self.kept: set[Reference] = set()
        self._named = named or self.plain
        self._constants = 0

    def add(self, step: Step) -> None:
        """Appends a step."""
        self.steps.append(step)

    def function(
        self, func: OpOverload, given: Container[str] = (), op: Operator | None = None
    ) -> Known:
        """What is called: the quickest for a kernel with arguments of the names `given`."""
        name = func.overloadpacket.__name__
        function: Callable[..., Any] = func
        if func.namespace == "aten" and "out" not in given:
            sparse = op is not None and bool(op.attrs.get("is_sparse"))
            function = look_up if sparse and name == "embedding" else FAST.get(name, function)
        return self.source.constant(f"{name}_kernel", function)

    def of(self, tree: Any) -> Tree:
        """What a kernel was given, as a step is given it."""
        return mapped(tree, self._leaf)

    def _leaf(self, one: Any) -> Tree:
        if isinstance(one, Value):
            return self._named(one)
        if isinstance(one, Entry):
            return one.found
        if one is None or isinstance(one, bool | int | str):
            return one
        if isinstance(one, float) and math.isfinite(one):
            return one
        self._constants += 1
        return self.source.constant(f"c{self._constants}", one)

    def plain(self, value: Value) -> Tree:
        """A value by its own name; a constant as one of the plan."""
        if isinstance(value.constant, Entry):
            return value.constant.found
        if value.constant is not None:
            return self.source.constant(value.name, value.constant)
        return Name(value.name)

    def finished(self) -> PlanSource:
        """All steps; each name is given up after its last use."""
        found = [
            {one for one in step.reads | step.writes if isinstance(one, Name)} - self.kept
            for step in self.steps
        ]
        last = {name: number for number, names in enumerate(found) for name in names}
        for number, step in enumerate(self.steps):
            self.source.add(step)
            dead = sorted(name for name in found[number] if last[name] == number)
            if dead and number < len(self.steps) - 1:
                self.source.add(Free(tuple(dead)))
        return self.source
