"""Versions of variables, and patterns found in blocks."""

from typing import Any

import pytest

from refluid import fluid
from refluid.analysis.uses import Version, uses_in
from refluid.passes.pattern import find_matches, parse_pattern

layers = fluid.layers


def block_of(*ops: tuple[str, dict[str, Any], str]) -> Any:
    """A block of operators: type, inputs, name of the variable in slot Out."""
    block = fluid.Program().global_block()
    for kind, inputs, out in ops:
        for name in [*inputs.values(), out]:
            block.create_var(name=name, shape=[2, 3], dtype="float32")
        block.append_op(type=kind, inputs=inputs, outputs={"Out": out})
    return block


def test_each_write_makes_a_version() -> None:
    block = block_of(
        ("relu", {"X": "a"}, "b"),
        ("relu", {"X": "b"}, "b"),
        ("relu", {"X": "b"}, "c"),
        ("relu", {"X": "b"}, "d"),
    )
    uses = uses_in(block)
    assert [uses.before(position, "b") for position in range(4)] == [
        Version("b", 0),
        Version("b", 1),
        Version("b", 2),
        Version("b", 2),
    ]
    assert uses.after(1, "b") == Version("b", 2)
    assert uses.maker(Version("b", 1)) == 0
    assert uses.maker(Version("a", 0)) is None
    assert uses.users(Version("b", 1)) == [1]
    assert uses.users(Version("b", 2)) == [2, 3]
    assert uses.between("b", 2, 3, reads=False) == []
    assert uses.between("b", 0, 3, reads=True) == [0, 1, 1, 2, 3]


PATTERN = """
    add: elementwise_add(X=x, Y=y) -> Out=sum
    act: relu|tanh(X=sum) -> Out=out
"""


def test_a_pattern_is_found_by_versions_not_by_names() -> None:
    matching = block_of(
        ("elementwise_add", {"X": "a", "Y": "b"}, "c"),
        ("relu", {"X": "c"}, "c"),
        ("tanh", {"X": "c"}, "d"),
    )
    (match,) = find_matches(parse_pattern(PATTERN), uses_in(matching))
    assert match.types == {"add": "elementwise_add", "act": "relu"}
    assert match.name("out") == "c"
    overwritten = block_of(
        ("elementwise_add", {"X": "a", "Y": "b"}, "c"),
        ("sigmoid", {"X": "a"}, "c"),
        ("relu", {"X": "c"}, "d"),
    )
    assert not list(find_matches(parse_pattern(PATTERN), uses_in(overwritten)))


def test_a_symbol_is_one_value() -> None:
    same = "add: elementwise_add(X=x, Y=x) -> Out=sum"
    double = block_of(("elementwise_add", {"X": "a", "Y": "a"}, "c"))
    other = block_of(("elementwise_add", {"X": "a", "Y": "b"}, "c"))
    assert len(list(find_matches(parse_pattern(same), uses_in(double)))) == 1
    assert not list(find_matches(parse_pattern(same), uses_in(other)))


def test_lines_may_be_broken_inside_parentheses() -> None:
    (node,) = parse_pattern("add: elementwise_add(\n  X=x,\n  Y=y?\n) -> Out=sum")
    assert [(slot.name, slot.symbol, slot.optional) for slot in node.inputs] == [
        ("X", "x", False),
        ("Y", "y", True),
    ]
    with pytest.raises(ValueError, match="no operator of a pattern"):
        parse_pattern("add elementwise_add")
