"""Loops over time steps that are recorded as the kernels of all their steps.

How many steps there are follows from the shapes that are fed. So does what the lists hold in which
a loop keeps its steps' values: they are objects of the recording, which no recorded step has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType

import torch

from refluid.analysis.placeholders import placeholder
from refluid.core.accumulator import Accumulator
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.code import Code, PreparedStep
from refluid.runtime.recorded.graph import Kernel
from refluid.runtime.recorded.settled import calls_plainly, is_pure
from refluid.runtime.recurrence import add_gradients, stack_steps
from refluid.runtime.steps import Bind, Call, Compound, Free, Step, all_steps

# Kernels that the loops of a recording may become: a line of Python each.
MOST = 8192
# What the plans of loops call besides operators.
_CALLED = (Accumulator, add_gradients, placeholder, stack_steps, torch.zeros_like)


class Loops:
    """The loops of one recording of a plan. namespace: what its steps find under each name."""

    def __init__(self, code: Code, namespace: Mapping[str, object]) -> None:
        self._constants, self._origin = namespace, code.origin
        self._kernels = 0

    def unrolls(self, step: Step) -> bool:
        """Whether it is a loop over time steps, or moves values into one or out of it."""
        if isinstance(step, Compound):
            return counts_steps(step.op) and all(map(self._is_followed, all_steps(step.inner)))
        return (step.op is None or counts_steps(step.op)) and self._moves(step)

    def _is_followed(self, step: Step) -> bool:
        if self._moves(step):
            return True
        if type(step) is not Call or step.op is None:
            return False
        return is_pure(step.op) and calls_plainly(step, self._constants)

    def _moves(self, step: Step) -> bool:
        if step.acts or not isinstance(step, Bind | Call | Free):
            return False
        called = [self._constants[one] for one in step.known]
        return all(any(one is known for known in _CALLED) for one in called)

    def operator_within(self, one: PreparedStep) -> Callable[[], Operator | None]:
        """Tells which operator of a loop's body is running."""
        return lambda: self._origin.get(_line_of(one.code), one.step.op)

    def refuses(self, kernels: Sequence[Kernel]) -> str:
        """Why kernels can't stand for one more loop; "" where they can."""
        self._kernels += len(kernels)
        return "very many kernels" if self._kernels > MOST else ""


def counts_steps(op: Operator | None) -> bool:
    """Whether it loops over as many time steps as its inputs have."""
    definition = find(op.type) if op is not None else None
    nested = definition.nested if definition else None
    return nested is not None and bool(nested.stacked)


def _line_of(code: CodeType) -> int:
    """The line at which that code is running, which called what calls this."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno
