"""`Variables`: under which names a plan has a program's variables, and which live in the scope."""

from __future__ import annotations

from refluid.analysis.liveness import overwritten
from refluid.analysis.uses import Key, key_of
from refluid.ir.block import Block
from refluid.ir.names import EMPTY
from refluid.runtime.trees import CellName, Name


class Variables:
    """The variables of one plan.

    names: the local variable of each. state: numbers of those that the scope keeps. fed: those
    that are fed. overwritten: those that some operator overwrites.
    """

    def __init__(self, block: Block, feeds: tuple[str, ...]) -> None:
        self._blocks = block.program.blocks
        self.names: dict[Key, Name] = {}
        self.state: dict[Key, int] = {}
        self.fed = {key_of(block, name) for name in feeds}
        self.overwritten = overwritten(block)

    def is_state(self, block: Block, name: str) -> bool:
        """Whether the value lives in the scope beyond the run."""
        var = block.find_var_recursive(name)
        return var is not None and var.persistable

    def home(self, key: Key) -> Block:
        """The block that a variable belongs to."""
        return self._blocks[key[0]]

    def local(self, block: Block, name: str) -> Name | None:
        """The local variable that holds the value; None for a variable that is none."""
        return None if name == EMPTY else self.named(key_of(block, name), block)

    def named(self, key: Key, block: Block | None = None) -> Name:
        """The same of a variable that is one. block: which uses it, where not its own."""
        if key not in self.names:
            letter = "p" if self.is_state(block or self.home(key), key[1]) else "v"
            self.names[key] = Name(f"{letter}{len(self.names)}")
        return self.names[key]

    def cell(self, key: Key) -> CellName:
        """The scope's cell of a variable, which need not be declared in the program."""
        return CellName(self.state.setdefault(key, len(self.state)))
