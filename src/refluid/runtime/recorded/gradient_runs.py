"""Where a recorded step makes nothing but gradients: there subnormal results are zeros.

A gradient below 1.2e-38 changes nothing that it is added to, and dividing by such a number
overflows with it as well as without. What a network computes, and what an optimizer keeps, stays
as it is: a logarithm of a subnormal probability is 92, and of zero infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from refluid.ir.attributes import OpRole
from refluid.ir.names import GRAD
from refluid.kernels import subnormals
from refluid.runtime.recorded.graph import Compiled, Line, Part
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Call, Pause, Step

# Asking all threads for it takes 14 us. Who makes so many numbers takes twenty times as long.
MANY = 1 << 20


def gradient_runs(parts: Sequence[Part | Compiled]) -> tuple[set[int], set[int]]:
    """The positions where long runs of parts that make gradients begin, and those of their ends."""
    begins, ends = set(), set()
    for makes, run in groupby(range(len(parts)), key=lambda at: _makes_gradients(parts[at])):
        places = list(run)
        if makes and sum(_made(parts[at]) for at in places) >= MANY:
            begins.add(places[0])
            ends.add(places[-1])
    return begins, ends


def flushing(source: PlanSource) -> Step:
    """The step before such a run."""
    return Call(None, source.constant("flush_subnormals", subnormals.flush))


def keeping(source: PlanSource) -> Step:
    """The step after it."""
    return Call(None, source.constant("keep_subnormals", subnormals.keep))


def _makes_gradients(part: Part | Compiled) -> bool:
    """Of a compiled function nobody knows; where a step pauses, others run."""
    if isinstance(part, Compiled) or (isinstance(part, Line) and isinstance(part.step, Pause)):
        return False
    op = part.op
    if op is None or not op.role & OpRole.BACKWARD:
        return False
    return all(GRAD in name for name in op.output_arg_names)


def _made(part: Part | Compiled) -> int:
    """How many numbers it makes."""
    layouts = [value.layout for value in part.outs if value is not None]
    return sum(one.shape.numel() for one in layouts if one is not None)
