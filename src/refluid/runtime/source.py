"""The steps of a plan, the constants they know, and the text that is made of them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from refluid.ir.operator import Operator
from refluid.runtime.printing import printed
from refluid.runtime.steps import Compound, Step
from refluid.runtime.trees import Known, Tree

HEADER = "def step(F, C, L):"
B = TypeVar("B", bound=Compound)


class PlanSource:
    """The steps of one function `step(F, C, L)`, and the values that they know by name."""

    def __init__(self, constants: Mapping[str, Any] | None = None) -> None:
        self.steps: list[Step] = []
        self.constants = {str(name): value for name, value in (constants or {}).items()}
        self._into = self.steps

    def add(self, step: Step) -> None:
        """Appends a step, to the block that is open."""
        self._into.append(step)

    @contextmanager
    def block(self, step: B) -> Iterator[B]:
        """Appends a step; those added within are inside it."""
        self.add(step)
        with self.inside(step.body):
            yield step

    @contextmanager
    def inside(self, body: list[Step]) -> Iterator[None]:
        """Steps added within are appended to `body`."""
        outer, self._into = self._into, body
        try:
            yield
        finally:
            self._into = outer

    def constant(self, name: str, value: Any) -> Known:
        """A name under which the function finds `value`; the same value gets the same name."""
        candidate, number = name, 1
        while self._taken(candidate, value):
            candidate, number = f"{name}_{number}", number + 1
        self.constants[candidate] = value
        return Known(candidate)

    def _taken(self, name: str, value: Any) -> bool:
        """Whether a name is another constant's or Python's: loops count by Python's `range`."""
        return hasattr(builtins, name) or self.constants.get(name, value) is not value

    @cached_property
    def _printed(self) -> tuple[str, dict[int, Step]]:
        lines, steps = [HEADER], {}
        for number, (text, step) in enumerate(printed(self.steps), 2):
            lines.append(text)
            steps[number] = step
        return "\n".join(lines) + "\n", steps

    @property
    def text(self) -> str:
        """The function as Python."""
        return self._printed[0]

    @property
    def lines(self) -> Mapping[int, Step]:
        """The step that stands in each line."""
        return self._printed[1]

    def starts(self) -> Iterator[tuple[Step, int]]:
        """Each step with its first line."""
        first: dict[Step, int] = {}
        for line, step in self.lines.items():
            first.setdefault(step, line)
        return ((step, first[step]) for step in self.steps)

    @cached_property
    def origin(self) -> Mapping[int, Operator]:
        """The operator of each line."""
        return {line: step.op for line, step in self.lines.items() if step.op is not None}


def literal(value: Any) -> Tree:
    """An attribute as a step is given it; sequences become tuples, which cost nothing."""
    return tuple(map(literal, value)) if isinstance(value, list | tuple) else value
