"""Loops over time steps that are recorded as the kernels of all their steps.

How many steps there are follows from the shapes that are fed. So does what the lists hold in which
a loop keeps its steps' values: they are objects of the recording, which no recorded step has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from refluid.analysis.placeholders import placeholder
from refluid.core.accumulator import Accumulator
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.recorded.settled import is_pure
from refluid.runtime.recurrence import add_gradients, stack_steps
from refluid.runtime.steps import Bind, Call, Compound, Free, Step, all_steps

# Kernels that the loops of a recording may become: a line of Python each.
MOST = 8192
# What the plans of loops call besides operators.
_CALLED = (Accumulator, add_gradients, placeholder, stack_steps, torch.zeros_like)


def belongs_to_steps(step: Step, constants: Mapping[str, Any]) -> bool:
    """Whether it is a loop over time steps, or moves values into one or out of it."""
    if isinstance(step, Compound):
        inner = [*all_steps(step.inner)]
        return counts_steps(step.op) and all(_is_followed(one, constants) for one in inner)
    return (step.op is None or counts_steps(step.op)) and _moves(step, constants)


def counts_steps(op: Operator | None) -> bool:
    """Whether it loops over as many time steps as its inputs have."""
    definition = find(op.type) if op is not None else None
    nested = definition.nested if definition else None
    return nested is not None and bool(nested.stacked)


def _is_followed(step: Step, constants: Mapping[str, Any]) -> bool:
    if _moves(step, constants):
        return True
    return type(step) is Call and step.op is not None and is_pure(step.op)


def _moves(step: Step, constants: Mapping[str, Any]) -> bool:
    if step.acts or not isinstance(step, Bind | Call | Free):
        return False
    return all(any(constants[one] is known for known in _CALLED) for one in step.known)


def line_of(code: CodeType) -> int:
    """The line at which that code is running, which called what calls this."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno
