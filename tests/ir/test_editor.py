"""Editing a block's operators: what is then there, and that plans of the program are made anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program


def block_of(*types: str) -> Block:
    block = Program().global_block()
    Editor(block).append(*(Operator(block, type) for type in types))
    return block


def types_of(block: Block) -> str:
    return " ".join(op.type for op in block.ops)


CHANGES: dict[str, tuple[Callable[[Editor, Block], object], str]] = {
    "append": (lambda editor, block: editor.append(Operator(block, "x")), "a b c x"),
    "insert": (
        lambda editor, block: editor.insert(1, Operator(block, "x"), Operator(block, "y")),
        "a x y b c",
    ),
    "assign": (lambda editor, block: editor.assign(reversed(block.ops)), "c b a"),
    "keep": (lambda editor, block: editor.keep(lambda op: op.type != "b"), "a c"),
    "remove": (lambda editor, block: editor.remove(block.ops[0], block.ops[2]), "b"),
    "replace": (
        lambda editor, block: editor.replace(block.ops[1], *block.ops[:0], Operator(block, "x")),
        "a x c",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    change, after = CHANGES[name]
    block = block_of("a", "b", "c")
    count = block.program.change_count
    change(Editor(block), block)
    assert types_of(block) == after
    assert block.program.change_count > count


def test_equal_operators_are_told_apart() -> None:
    block = block_of("a", "a", "b")
    first = block.ops[0]
    Editor(block).remove(block.ops[1])
    assert types_of(block) == "a b"
    assert block.ops[0] is first


def test_operators_of_other_blocks_are_refused() -> None:
    block, other = block_of("a"), block_of("b")
    with pytest.raises(ValueError, match="copy it"):
        Editor(block).append(*other.ops)
    with pytest.raises(ValueError, match="not in block 0"):
        Editor(block).remove(*other.ops)
    assert types_of(block) == "a"


def test_forgotten_variables_are_gone_and_unknown_ones_nothing() -> None:
    block = block_of()
    block.create_var(name="x")
    count = block.program.change_count
    Editor(block).forget_variables(["x", "y"])
    assert not block.vars
    assert block.program.change_count > count


def test_slots_and_renames_count_as_changes() -> None:
    block = block_of("a")
    (op,) = block.ops
    for change in (
        lambda: op.set_input("X", ["x"]),
        lambda: op.set_output("Out", ["y"]),
        lambda: op.rename_input("x", "z"),
    ):
        count = block.program.change_count
        change()
        assert block.program.change_count > count
    assert (op.inputs, op.outputs) == ({"X": ["z"]}, {"Out": ["y"]})
