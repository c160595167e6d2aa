"""The part of a program that computes given variables."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from refluid.analysis.uses import names_read
from refluid.core.dtypes import VarType
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program


def prune(
    program: Program,
    targets: Iterable[str],
    feeds: Iterable[str] = (),
    places: Collection[int] = (),
) -> Program:
    """A copy of the program with just the operators that the targets need.

    places: of operators of the global block that stay, with what they need.

    Operators whose outputs are fed are left out too, and so are variables that no remaining
    operator uses. Sub-blocks of remaining operators stay whole.
    """
    copy = program.clone()
    block = copy.global_block()
    given, needed = set(feeds), set(targets)
    kept: list[Operator] = []
    for place, op in reversed(list(enumerate(block.ops))):
        if place in places or needed & (set(op.output_arg_names) - given):
            kept.append(op)
            needed |= set(names_read(op)) - given
    editor = Editor(block)
    editor.assign(kept[::-1])
    used = needed | given | {name for op in kept for name in op.output_arg_names}
    editor.forget_variables(block.vars.keys() - used)
    return copy


def without_readers(program: Program) -> Program:
    """A copy of the program that is fed: readers, and what makes and reads them, are left out."""
    copy = program.clone()
    block = copy.global_block()
    readers = {name for name, var in block.vars.items() if var.type == VarType.READER}
    editor = Editor(block)
    editor.keep(lambda op: not readers & set(op.arg_names))
    editor.forget_variables(readers)
    return copy
