"""The one way to change which operators a block has, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refluid.ir.block import Block
    from refluid.ir.operator import Operator


class OperatorList(list["Operator"]):
    """The operators of a block, in order.

    Users' scripts append what a description has put there already: `block.ops.append(op)` after
    `Operator(block, block.desc.append_op(), ..)`.
    """

    def append(self, op: Operator) -> None:
        """Puts an operator at the end, unless it is there."""
        if not any(one is op for one in reversed(self)):
            super().append(op)


class Editor:
    """Changes the operators of a block; after each change the program counts as changed.

    So plans and analyses of the program are made anew. Raises ValueError for operators that
    belong to another block, and for places that aren't in this one.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    def append(self, *ops: Operator) -> None:
        """Puts operators at the end."""
        self.insert(len(self.block._ops), *ops)

    def insert(self, index: int, *ops: Operator) -> None:
        """Puts operators before the one at `index`."""
        self._check(ops)
        self.block._ops[index:index] = ops
        self.block.program.touch()

    def assign(self, ops: Iterable[Operator]) -> None:
        """Puts these operators in the place of all."""
        ops = list(ops)
        self._check(ops)
        self.block._ops = OperatorList(ops)
        self.block.program.touch()

    def keep(self, wanted: Callable[[Operator], bool]) -> None:
        """Removes the operators that aren't wanted."""
        self.assign([op for op in self.block.ops if wanted(op)])

    def remove(self, *ops: Operator) -> None:
        """Removes operators."""
        places = {self._place(op) for op in ops}
        self.assign(op for place, op in enumerate(self.block.ops) if place not in places)

    def replace(self, op: Operator, *ops: Operator) -> None:
        """Puts operators in the place of one."""
        place = self._place(op)
        self.assign([*self.block.ops[:place], *ops, *self.block.ops[place + 1 :]])

    def forget_variables(self, names: Iterable[str]) -> None:
        """Removes variables from the block, where it has them."""
        for name in names:
            self.block.vars.pop(name, None)
        self.block.program.touch()

    def _place(self, op: Operator) -> int:
        for place, one in enumerate(self.block.ops):
            if one is op:
                return place
        raise ValueError(f"operator {op.type} is not in block {self.block.idx}")

    def _check(self, ops: Iterable[Operator]) -> None:
        for op in ops:
            if op.block is not self.block:
                raise ValueError(
                    f"operator {op.type} is of block {op.block.idx}, not {self.block.idx}; copy it"
                )
