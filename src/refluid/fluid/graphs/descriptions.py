"""Programs, blocks, operators and variables as Fluid's descriptions spell them: by methods.

    op.desc.set_input("X", ["y"]);  block.desc.append_op();  program.desc.block(0).op_size()

A description is a view: what it changes is the program's own.
"""

from __future__ import annotations

from refluid.fluid.graphs.described_parts import OpDesc, VarDesc
from refluid.ir.block import Block
from refluid.ir.described import describe_by
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import FLUID_VERSION, Program
from refluid.ir.variable import Variable

__all__ = ["BlockDesc", "OpDesc", "ProgramDesc", "VarDesc"]


class BlockDesc:
    """A block: `desc.op(0)`, `desc.append_op()`, `desc.var("x")`."""

    def __init__(self, /, *block: Block) -> None:
        (self._block,) = block

    @property
    def id(self) -> int:
        """Its number."""
        return self._block.idx

    @property
    def parent(self) -> int:
        """The number of the block around it; -1 for the first."""
        return self._block.parent_idx

    def op_size(self) -> int:
        """How many operators it has."""
        return len(self._block.ops)

    def op(self, index: int) -> OpDesc:
        """One of its operators."""
        return OpDesc(self._block.ops[index])

    def append_op(self) -> OpDesc:
        """Adds an operator at the end, which has no type yet: `set_type` gives it one."""
        return OpDesc(self._block.insert_blank(self.op_size()))

    def _prepend_op(self) -> OpDesc:
        return OpDesc(self._block.insert_blank(0))

    def _insert_op(self, index: int) -> OpDesc:
        return OpDesc(self._block.insert_blank(index))

    def _remove_op(self, start: int, end: int) -> None:
        Editor(self._block).remove(*self._block.ops[start:end])

    def all_vars(self) -> list[VarDesc]:
        """Its variables."""
        return [VarDesc(var) for var in self._block.vars.values()]

    def has_var(self, name: str | bytes) -> bool:
        """Whether it has a variable of that name."""
        return self.find_var(name) is not None

    def has_var_recursive(self, name: str | bytes) -> bool:
        """Whether it or a block around it has a variable of that name."""
        return self.find_var_recursive(name) is not None

    def find_var(self, name: str | bytes) -> VarDesc | None:
        """Its variable of that name, or None."""
        var = self._block.vars.get(_text(name))
        return None if var is None else VarDesc(var)

    def find_var_recursive(self, name: str | bytes) -> VarDesc | None:
        """The variable that a name means in it, or None."""
        var = self._block.find_var_recursive(_text(name))
        return None if var is None else VarDesc(var)

    def var(self, name: str | bytes) -> VarDesc:
        """Its variable of that name, made where it has none."""
        return self.find_var(name) or VarDesc(self._block.create_var(name=_text(name)))

    def _remove_var(self, name: str | bytes) -> None:
        self._block.remove_var(_text(name))

    def _rename_var(self, name: str | bytes, new_name: str | bytes) -> None:
        self._block.rename_var(_text(name), _text(new_name))

    def get_forward_block_idx(self) -> int:
        """Of a gradient block the number of the forward one, else -1."""
        found = self._block.forward_block_idx
        return -1 if found is None else found

    def _set_forward_block_idx(self, index: int) -> None:
        self._block.forward_block_idx = index

    def serialize_to_string(self) -> bytes:
        """Its message in Fluid's format."""
        from refluid.ir.desc import block_bytes

        return block_bytes(self._block)


class ProgramDesc:
    """A program: `desc.block(0)`, `desc.serialize_to_string()`."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def num_blocks(self) -> int:
        """How many blocks it has."""
        return len(self._program.blocks)

    def block(self, index: int) -> BlockDesc:
        """One of its blocks."""
        return BlockDesc(self._program.block(index))

    def append_block(self, parent: BlockDesc) -> BlockDesc:
        """Adds a block inside another one."""
        current = self._program.current_block_idx
        block = self._program.create_block(parent.id)
        self._program.current_block_idx = current
        return BlockDesc(block)

    def get_feed_target_names(self) -> list[str]:
        """What its feed operators write."""
        return self._ends("feed", "output", "Out")

    def get_fetch_target_names(self) -> list[str]:
        """What its fetch operators read."""
        return self._ends("fetch", "input", "X")

    def _ends(self, kind: str, side: str, slot: str) -> list[str]:
        found = [op for op in self._program.global_block().ops if op.type == kind]
        return [name for op in found for name in getattr(op, side)(slot)]

    def _version(self) -> int | None:
        """The release that its file names: 1008005 for 1.8.5."""
        return self._program.version

    def _set_version(self, version: int = FLUID_VERSION) -> None:
        self._program.version = version

    def flush(self) -> None:
        """Changes nothing: there is no second copy to bring up to date."""

    def serialize_to_string(self) -> bytes:
        """The program in Fluid's format."""
        return self._program.serialize_to_string()


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


describe_by({Block: BlockDesc, Operator: OpDesc, Program: ProgramDesc, Variable: VarDesc})
