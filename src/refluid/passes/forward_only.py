"""Forward, backward, updates -> forward: what a program computes, left as it is otherwise."""

from __future__ import annotations

from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.passes.protocol import Options, Report

_UPDATING = OpRole.BACKWARD | OpRole.OPTIMIZE | OpRole.LR_SCHED | OpRole.RPC


def forward_only(program: Program, _options: Options) -> Report:
    """Leaves out gradients, updates and learning-rate schedules, in place."""
    for block in program.blocks:
        Editor(block).keep(lambda op: not op.role & _UPDATING)
    return Report(changed=True)
