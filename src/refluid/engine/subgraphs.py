"""FLAGS_print_sub_graph_dir: parts of a program that have nothing to do with each other."""

from __future__ import annotations

from refluid.core.writing import write_whole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.text import print_op


def unconnected(block: Block) -> list[list[Operator]]:
    """The operators of a block by group, in order; variables connect those that use them."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for op in block.ops:
        first, *others = _names(op)
        for name in others:
            leader[find(name)] = find(first)
    groups: dict[str, list[Operator]] = {}
    for op in block.ops:
        groups.setdefault(find(_names(op)[0]), []).append(op)
    return list(groups.values())


def _names(op: Operator) -> list[str]:
    """Its variables; an operator without any is on its own."""
    return [*op.input_arg_names, *op.output_arg_names] or [f"operator {op.idx}"]


def write_unconnected(block: Block, path: str) -> None:
    """Writes the groups to a file, where there are several."""
    groups = unconnected(block)
    if len(groups) < 2:
        return
    parts = (
        f"sub-graph {number} of {len(groups)}:\n"
        + "".join(f"  {print_op(op, brief=True)}\n" for op in group)
        for number, group in enumerate(groups, 1)
    )
    write_whole(path, "".join(parts))
