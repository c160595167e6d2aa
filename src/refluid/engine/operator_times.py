"""How long each operator of a plan takes, measured line by line while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from refluid.ir.operator import Operator
from refluid.runtime.plan import Plan


class OperatorTimes:
    """Adds up the time of each operator of `plan` while a thread is in `measuring`.

    A plan is a Python function in which every line belongs to an operator: the interpreter tells
    when it reaches the next one. This makes a step some microseconds per operator slower.
    """

    def __init__(self, plan: Plan) -> None:
        plan.stay_interpreted()
        self._origin = plan.code.origin
        self._filename = plan.code.filename
        self._spent: dict[int, tuple[Operator, float]] = {}
        self._line, self._since = 0, 0.0
        self.runs = 0

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """The calling thread runs the plan once within the block."""
        former = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(former)
            self.runs += 1

    def means(self) -> list[tuple[str, float]]:
        """Operator type and mean milliseconds per run, in the order of the program."""
        return [(op.type, 1000 * spent / max(self.runs, 1)) for op, spent in self._spent.values()]

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != self._filename:
            return None
        self._line, self._since = frame.f_lineno, time.perf_counter()
        return self._reached

    def _reached(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        now = time.perf_counter()
        op = self._origin.get(self._line)
        if op is not None:
            before = self._spent.get(id(op), (op, 0.0))[1]
            self._spent[id(op)] = op, before + now - self._since
        self._line, self._since = frame.f_lineno, time.perf_counter()
        return self._reached
