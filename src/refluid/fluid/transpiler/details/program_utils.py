"""Looking for operators of a block, removing them, and programs as text that reads like code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from refluid.ir.attributes import CALLSTACK
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.text import print_op, print_var
from refluid.ir.variable import Variable

__all__ = [
    "block_to_code",
    "delete_ops",
    "find_op_by_input_arg",
    "find_op_by_output_arg",
    "get_indent_space",
    "op_to_code",
    "program_to_code",
    "variable_to_code",
]


def delete_ops(block: Block, ops: Iterable[Operator]) -> None:
    """Removes operators from a block."""
    Editor(block).remove(*ops)


def find_op_by_input_arg(block: Block, arg_name: str) -> int:
    """Position of the first operator that reads a variable, -1 where there is none."""
    return next((i for i, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def find_op_by_output_arg(block: Block, arg_name: str, reverse: bool = False) -> int:
    """Position of the first operator (of the last, if `reverse`) that writes a variable, or -1."""
    found = [i for i, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    return (found[-1] if reverse else found[0]) if found else -1


def get_indent_space(indent: int, space_num: int = 4) -> str:
    """The spaces in front of a line."""
    return " " * (indent * space_num)


def variable_to_code(var: Variable) -> str:
    """A variable as one line."""
    return print_var(var)


def op_to_code(op: Operator, skip_op_callstack: bool = True) -> str:
    """An operator as one line; with the user's lines that made it unless they are skipped."""
    line = print_op(op)
    if skip_op_callstack or not op.has_attr(CALLSTACK):
        return line
    return "\n".join([line, *(f"  # {frame}" for frame in op.callstack)])


def block_to_code(
    block: Block, block_idx: int, fout: TextIO | None = None, skip_op_callstack: bool = False
) -> None:
    """Writes a block to `fout`, the standard output where None."""
    out = sys.stdout if fout is None else fout
    print(f"{{ // block {block_idx}", file=out)
    for var in block.vars.values():
        print(get_indent_space(1) + variable_to_code(var), file=out)
    print(file=out)
    for op in block.ops:
        code = op_to_code(op, skip_op_callstack)
        print(get_indent_space(1) + code.replace("\n", "\n" + get_indent_space(1)), file=out)
    print("}", file=out)


def program_to_code(
    prog: Program, fout: TextIO | None = None, skip_op_callstack: bool = True
) -> None:
    """Writes all blocks of a program to `fout`, the standard output where None."""
    for number, block in enumerate(prog.blocks):
        block_to_code(block, number, fout, skip_op_callstack)
