"""What those who write a plan's steps share; each part has the file that changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from refluid.analysis.uses import Key
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.runtime.kernels import KernelChoice
from refluid.runtime.lods import Lods
from refluid.runtime.request import Request
from refluid.runtime.source import PlanSource
from refluid.runtime.tape import Tape
from refluid.runtime.trees import Name, Tree
from refluid.runtime.variables import Variables


@dataclass(frozen=True)
class Writing:
    """A plan while it is written.

    garbage: what collects dead values. tapes: what blocks keep for their gradient blocks, by block.
    entered: variables of sub-blocks that have a value when the block starts. fresh: variables
    whose memory nobody else holds. idle: operators that are left out. places: numbers that stand
    for the positions in arrays that operators are given. unread: output slots that an operator
    needn't compute, besides those that nobody reads.
    """

    request: Request
    source: PlanSource
    variables: Variables
    lods: Lods
    kernel: KernelChoice
    garbage: Name | None
    tapes: dict[int, Tape] = field(default_factory=dict)
    entered: set[Key] = field(default_factory=set)
    fresh: set[Key] = field(default_factory=set)
    idle: set[Operator] = field(default_factory=set)
    places: dict[Operator, Tree] = field(default_factory=dict)
    unread: dict[Operator, frozenset[str]] = field(default_factory=dict)

    def local(self, block: Block, name: str) -> Name | None:
        """The local variable that holds a variable's value; None for one that is none."""
        return self.variables.local(block, name)


StepWriter = Callable[[Writing, Operator], None]
CONTROL: dict[str, StepWriter] = {}
# Feeds and fetches are the arguments and results of the plan itself.
FEEDING = frozenset({"feed", "fetch"})


def handles(*types: str) -> Callable[[StepWriter], StepWriter]:
    """Registers the decorated function as writing operators of these types into a plan."""

    def decorate(handler: StepWriter) -> StepWriter:
        for op_type in types:
            CONTROL[op_type] = handler
        return handler

    return decorate
