"""Values of a block: each write to a variable makes a new value under the same name.

Fluid reuses names (in-place updates, `@RENAME@` sums), so a pass that asks "who reads this?" must
ask about a value: a name and how many writes came before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program


@dataclass(frozen=True)
class Value:
    """What a variable holds after its first `version` writes; version 0 comes from outside."""

    name: str
    version: int


class Values:
    """Reads and writes of one block by position.

    An operator with sub-blocks reads and writes what they do. `shared` are the names that other
    blocks use, whose values can't be told from here.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.reads: defaultdict[str, list[int]] = defaultdict(list)
        self.writes: defaultdict[str, list[int]] = defaultdict(list)
        for position, op in enumerate(block.ops):
            for name in set(_inputs(op)):
                self.reads[name].append(position)
            for name in set(_outputs(op)):
                self.writes[name].append(position)
        self.shared = {
            name
            for other in blocks_in_use(block.program)
            for op in other.ops
            if other is not block
            for name in op.input_arg_names + op.output_arg_names
        }

    def before(self, position: int, name: str) -> Value:
        """The value that an operator at that position reads."""
        return Value(name, bisect_left(self.writes[name], position))

    def after(self, position: int, name: str) -> Value:
        """The value that an operator at that position writes."""
        return Value(name, bisect_left(self.writes[name], position) + 1)

    def maker(self, value: Value) -> int | None:
        """Position of the operator that wrote the value."""
        return self.writes[value.name][value.version - 1] if value.version else None

    def users(self, value: Value) -> list[int]:
        """Positions of the operators that read the value."""
        writes = self.writes[value.name]
        first = self.maker(value)
        last = writes[value.version] if value.version < len(writes) else len(self.block.ops)
        start = -1 if first is None else first
        return [position for position in self.reads[value.name] if start < position <= last]

    def between(self, name: str, one: int, other: int, *, reads: bool) -> list[int]:
        """Positions from `one` to `other` that write the name, or with `reads` read it too."""
        low, high = sorted((one, other))
        found = self.writes[name] + (self.reads[name] if reads else [])
        return [position for position in found if low <= position <= high]


def blocks_in_use(program: Program) -> list[Block]:
    """The global block and those that operators run, not those left behind by recomputation."""
    found = [program.global_block()]
    for block in found:
        inner = (one for op in block.ops for one in op.sub_blocks())
        found += [one for one in inner if one not in found]
    return found


def _inputs(op: Operator) -> Iterator[str]:
    yield from (name for name in op.input_arg_names if name != EMPTY)
    for block in op.sub_blocks():
        for inner in block.ops:
            yield from _inputs(inner)


def _outputs(op: Operator) -> Iterator[str]:
    yield from (name for name in op.output_arg_names if name != EMPTY)
    for block in op.sub_blocks():
        for inner in block.ops:
            yield from _outputs(inner)
