"""Which variables operators read and write, and where each of their versions is made and read.

Fluid reuses names (in-place updates, sums of gradients), so who asks "who reads this?" must ask
about a version of a variable. All of this is worked out once for a program as it is and kept until
it changes (`Program.derived`); what is given out must not be changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable

Key = tuple[int, str]
T = TypeVar("T")


# -- which variable a name means ----------------------------------------------


def key_of(block: Block, name: str) -> Key:
    """Identity of a variable: the block that declares it, and its name.

    A gradient block also sees the variables of its forward block. A name that nobody declares
    belongs to the block that uses it.
    """
    home: Block | None = block
    while home is not None:
        if name in home.vars:
            return home.idx, name
        forward = forward_of(home)
        if forward is not None and name in forward.vars:
            return forward.idx, name
        home = home.parent
    return block.idx, name


def find_variable(block: Block, name: str) -> Variable | None:
    """The variable's description, where any block that `key_of` looks at declares it."""
    home, _ = key_of(block, name)
    return block.program.blocks[home].vars.get(name)


def forward_of(block: Block) -> Block | None:
    """The block whose gradient this one computes."""
    index = block.forward_block_idx
    return None if index is None or index < 0 else block.program.blocks[index]


# -- operators ----------------------------------------------------------------


def reads(op: Operator) -> frozenset[Key]:
    """Variables that an operator reads, those of its sub-blocks included."""
    return op.block.program.derived(Uses).touched(op)[0]


def writes(op: Operator) -> frozenset[Key]:
    """Variables that an operator writes, those of its sub-blocks included."""
    return op.block.program.derived(Uses).touched(op)[1]


def blocks_in_use(program: Program) -> Sequence[Block]:
    """The global block and those that operators run, not those left behind by recomputation."""
    return program.derived(Uses).blocks


def uses_in(block: Block) -> BlockUses:
    """Where the operators of a block read and write."""
    return block.program.derived(Uses).of(block)


def shared_names(block: Block) -> AbstractSet[str]:
    """Names that other blocks in use have too, of whose versions nothing is known in this one."""
    uses = block.program.derived(Uses)
    return frozenset[str]().union(*(uses.names(one) for one in uses.blocks if one is not block))


def names_in_use(program: Program) -> AbstractSet[str]:
    """Names that operators of any block use, also of blocks that nothing runs."""
    return frozenset[str]().union(*map(program.derived(Uses).names, program.blocks))


class Uses:
    """What is known of one program as it is. Others ask by the functions of this module."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._touched: dict[Operator, tuple[frozenset[Key], frozenset[Key]]] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._of: dict[int, BlockUses] = {}

    def touched(self, op: Operator) -> tuple[frozenset[Key], frozenset[Key]]:
        """What an operator reads, and what it writes."""
        found = self._touched.get(op)
        if found is None:
            read, written = _keys(op.block, op.inputs), _keys(op.block, op.outputs)
            for block in op.sub_blocks():
                own = {block.idx, block.forward_block_idx}
                for inner in map(self.touched, block.ops):
                    read |= {key for key in inner[0] if key[0] not in own}
                    written |= {key for key in inner[1] if key[0] not in own}
            found = self._touched[op] = frozenset(read), frozenset(written)
        return found

    def of(self, block: Block) -> BlockUses:
        found = self._of.get(block.idx)
        if found is None:
            found = self._of[block.idx] = BlockUses(block)
        return found

    def names(self, block: Block) -> frozenset[str]:
        """The names that operators of a block use."""
        found = self._names.get(block.idx)
        if found is None:
            names = (name for op in block.ops for name in op.arg_names)
            found = self._names[block.idx] = frozenset(names)
        return found

    @cached_property
    def blocks(self) -> Sequence[Block]:
        found = [self._program.global_block()]
        for block in found:
            inner = (one for op in block.ops for one in op.sub_blocks())
            found += [one for one in inner if one not in found]
        return found


def _keys(block: Block, slots: Mapping[str, Sequence[str]]) -> set[Key]:
    own, index = block.vars, block.idx
    return {
        (index, name) if name in own else key_of(block, name)
        for names in slots.values()
        for name in names
        if name != EMPTY
    }


# -- versions -----------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """What a variable holds after its first `number` writes; number 0 comes from outside."""

    name: str
    number: int


class DefUse(Generic[T]):
    """Reads and writes of operators (or other things) that run one after the other.

    readers, writers: name -> positions at which it is read and written, in order.
    """

    def __init__(
        self,
        items: Sequence[T],
        reads: Callable[[T], Iterable[str]],
        writes: Callable[[T], Iterable[str]],
    ) -> None:
        self.count = len(items)
        self.readers: dict[str, list[int]] = {}
        self.writers: dict[str, list[int]] = {}
        for position, item in enumerate(items):
            for name in reads(item):
                self.readers.setdefault(name, []).append(position)
            for name in writes(item):
                self.writers.setdefault(name, []).append(position)

    def before(self, position: int, name: str) -> Version:
        """The version that is there when the item at that position starts."""
        return Version(name, bisect_left(self.writers.get(name, ()), position))

    def after(self, position: int, name: str) -> Version:
        """The version that the item at that position writes."""
        return Version(name, bisect_left(self.writers.get(name, ()), position) + 1)

    def maker(self, version: Version) -> int | None:
        """Position of the item that wrote the version."""
        return self.writers[version.name][version.number - 1] if version.number else None

    def users(self, version: Version) -> list[int]:
        """Positions of the items that read the version."""
        writers = self.writers.get(version.name, ())
        first = self.maker(version)
        last = writers[version.number] if version.number < len(writers) else self.count
        start = -1 if first is None else first
        return [place for place in self.readers.get(version.name, ()) if start < place <= last]

    def between(self, name: str, one: int, other: int, *, reads: bool) -> list[int]:
        """Positions from `one` to `other` that write the name, or with `reads` read it too."""
        low, high = sorted((one, other))
        found = [*self.writers.get(name, ()), *(self.readers.get(name, ()) if reads else ())]
        return [place for place in found if low <= place <= high]

    def within(self, name: str, start: int, end: int) -> bool:
        """Whether all that read and write it are at positions from `start` to before `end`."""
        places = [*self.writers.get(name, ()), *self.readers.get(name, ())]
        return all(start <= place < end for place in places)

    def made_here(self, name: str) -> bool:
        """Whether it is written before anything reads it, so that nothing from outside is."""
        written, read = self.writers.get(name, ()), self.readers.get(name)
        return bool(written and (not read or written[0] < read[0]))

    def overwritten(self, name: str) -> bool:
        """Whether a version of it, made here or outside and read, is replaced by another."""
        written, read = self.writers.get(name, ()), self.readers.get(name)
        return len(written) > 1 or bool(written and read and read[0] <= written[0])


def uses_of(
    ops: Sequence[Operator], reads: Callable[[Operator], Iterable[Key]] = reads
) -> DefUse[Operator]:
    """Reads and writes of some operators of one block. reads: which of their reads count."""
    return DefUse(ops, lambda op: (name for _, name in reads(op)), names_written)


class BlockUses(DefUse[Operator]):
    """Reads and writes of the operators of one block."""

    def __init__(self, block: Block) -> None:
        super().__init__(block.ops, names_read, names_written)
        self.block = block
        self.shared = shared_names(block)


def names_read(op: Operator) -> Iterator[str]:
    """Names of the variables that an operator reads."""
    return (name for _, name in reads(op))


def names_written(op: Operator) -> Iterator[str]:
    """Names of the variables that an operator writes."""
    return (name for _, name in writes(op))


def is_update(op: Operator) -> bool:
    """Whether it updates a parameter."""
    return "Param" in op.inputs and bool(op.role & OpRole.OPTIMIZE)
