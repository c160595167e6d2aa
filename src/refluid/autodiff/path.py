"""Which operators lie on the way from some variables to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from refluid.core.dtypes import DIFFERENTIABLE
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of

_PLACE = "I"
_NO_MODEL = OpRole.OPTIMIZE | OpRole.LR_SCHED


def backward_path(block: Block, targets: Iterable[str], stopped: Collection[str]) -> list[Operator]:
    """The operators that `targets` are computed by, in program order.

    The way does not lead through the variables in `stopped`, nor through optimizers and
    learning-rate schedules; but what counts places in arrays is on it anyway.
    """
    wanted = set(targets)
    path: list[Operator] = []
    for op in reversed(block.ops):
        if not wanted.isdisjoint(op.output_arg_names) and not op.role & _NO_MODEL:
            path.append(op)
            wanted.update(set(op.input_arg_names).difference(stopped), op.input(_PLACE))
    return path[::-1]


def depending_on(
    sources: Iterable[str], path: Iterable[Operator], stopped: Collection[str]
) -> list[Operator]:
    """The operators of a path that depend on `sources`, in the same order, and its counters."""
    reached = set(sources)
    found: list[Operator] = []
    for op in path:
        depends = not reached.isdisjoint(op.input_arg_names)
        if depends or facts_of(op.type).reverted:
            found.append(op)
        if depends:
            reached.update(set(op.output_arg_names).difference(stopped))
    return found


def carried_gradients(
    block: Block,
    targets: Iterable[str],
    carried: Sequence[tuple[str, str]],
    stopped: Collection[str],
) -> set[str]:
    """Of what a loop's block hands from one round to the next, what `targets` depend on.

    carried: (name at the start of a round, name at the end of the former round), the same name
    for a variable that a round changes. Returns names at the end of a round.
    """
    wanted, found = set(targets), set[str]()
    while True:
        for op in reversed(block.ops):
            if not wanted.isdisjoint(op.output_arg_names):
                wanted.update(name for name in op.input_arg_names if _floating(block, name))
        wanted.difference_update(stopped)
        more = {end for start, end in carried if start in wanted} - found
        if not more:
            return found
        found |= more
        wanted |= more


def _floating(block: Block, name: str) -> bool:
    var = block.find_var_recursive(name)
    return var is not None and var.dtype in DIFFERENTIABLE
