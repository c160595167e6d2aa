"""Runs a program in one way: all its steps, what they returned, and what is left in the scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refluid import fluid
from refluid.core import flags
from tests.fuzzing.programs import Built, Spec, feed_of

State = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How a program is run: flags, and what is made of it (`compiled`)."""

    name: str
    flags: Mapping[str, Any] = field(default_factory=dict)
    compiled: Mapping[str, Any] | None = None


@dataclass
class Trace:
    """Per step the fetched values, or the kind of error; the persistable variables at the end."""

    steps: list[list[Any] | str]
    state: State

    @property
    def errors(self) -> int:
        """How many steps were refused."""
        return sum(isinstance(one, str) for one in self.steps)


def initial(built: Built) -> State:
    """What the startup program makes."""
    scope = fluid.Scope()
    fluid.Executor().run(built.startup, scope=scope)
    return held(built, scope)


def held(built: Built, scope: Any) -> State:
    """Copies of all persistable variables that have a value."""
    found = {}
    for var in built.main.list_vars():
        cell = scope.find_var(var.name) if var.persistable else None
        if cell is not None and cell.value is not None:
            found[var.name] = np.array(cell.get_tensor())
    return found


def run(spec: Spec, built: Built, start: State, way: Way) -> Trace:
    """All steps of the program in this way, from this state on."""
    scope, executor = fluid.Scope(), fluid.Executor()
    for name, array in start.items():
        scope.var(name).get_tensor().set(array, fluid.CPUPlace())
    steps: list[list[Any] | str] = []
    with flags.override(way.flags):
        program = built.main if way.compiled is None else way.compiled["make"](built)
        for step in spec.steps:
            feed = feed_of(spec, step)
            try:
                found = executor.run(program, feed, built.fetches, scope=scope, return_numpy=False)
                steps.append([(np.array(one), one.lod()) for one in found])
            except Exception as error:
                steps.append(kind_of(error))
        return Trace(steps, held(built, scope))


def kind_of(error: Exception) -> str:
    """Its type, and the operator it names."""
    text = str(error)
    operator = text.rpartition("[operator < ")[2].partition(" >")[0] if "[operator <" in text else ""
    return f"{type(error).__name__} {operator}".strip()
