"""Which parts of a recorded step a graph of kernels can stand for: those of the device alone.

A graph repeats nothing that the host did. So all tensors that a part sees have to lie on the
device, and what Python does between kernels has to follow from shapes, and be the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from refluid.ops.effects import OUTSIDE
from refluid.ops.registry import facts_of
from refluid.runtime.recorded.graph import Compiled, Line, Part, Value
from refluid.runtime.recorded.settled import is_pure, source_of
from refluid.runtime.recorded.unrolled import counts_steps
from refluid.runtime.steps import Bind, Call, Clear, For, Free, Load, Return, Step, Store, While

# Steps that compute nothing.
_MOVES = (Bind, Clear, Free, Load, Return, Store)


def all_on(device: torch.device, parts: Sequence[Part | Compiled]) -> bool:
    """Whether the device alone runs all parts."""
    return all(_runs_on(device, part) for part in parts)


def _runs_on(device: torch.device, part: Part | Compiled) -> bool:
    if isinstance(part, Line) and not _repeats(part.step):
        return False
    return all(_lies_on(device, value) for value in (*part.uses, *part.outs) if value is not None)


def _lies_on(device: torch.device, value: Value) -> bool:
    """Whether it is on the device, of no elements, or the same in every step."""
    if value.layout is None or value.constant is not None:
        return True
    return value.layout.device.type in (device.type, "meta")


def _repeats(step: Step) -> bool:
    """Whether it does the same whenever it is run on tensors of the same shapes."""
    if isinstance(step, For | While):
        return counts_steps(step.op) and all(_repeats(one) for body in step.bodies for one in body)
    if type(step) is not Call:
        return isinstance(step, _MOVES)
    return counts_steps(step.op) or _is_kernels(step)


def _is_kernels(step: Call) -> bool:
    """Whether the operator is kernels and the Python around them: it draws no numbers, say."""
    op = step.op
    source = source_of(op) if op is not None else None
    if op is None or source is None or (step.acts | source.effects) & OUTSIDE:
        return False
    return is_pure(op) and not facts_of(op.type).reads
