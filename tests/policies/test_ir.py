"""Policies about programs: what is said of them in one place is said nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "refluid"
# Text -> the one file that may spell it.
SPELLED_ONCE = {
    "@EMPTY@": "ir/names.py",
    "@GRAD": "ir/names.py",
    "@RENAME@": "ir/names.py",
    "op_role": "ir/attributes.py",
    "op_role_var": "ir/attributes.py",
}


def parsed_files(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The files in whose text one of the words is, and their trees."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(text)


def test_names_are_spelled_once() -> None:
    found: dict[str, set[str]] = {text: set() for text in SPELLED_ONCE}
    for name, tree in parsed_files(*SPELLED_ONCE):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in SPELLED_ONCE:
                found[node.value].add(name)
    assert found == {text: {name} for text, name in SPELLED_ONCE.items()}


LIST_CHANGES = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}


def changes_of_operators(tree: ast.Module) -> Iterator[int]:
    """Lines that change `block.ops`, which only an `Editor` may; `self.ops` may be anything."""

    def is_ops(node: ast.AST) -> bool:
        while isinstance(node, ast.Subscript):
            node = node.value
        return isinstance(node, ast.Attribute) and node.attr == "ops" and not is_own(node)

    def is_own(node: ast.Attribute) -> bool:
        return isinstance(node.value, ast.Name) and node.value.id in {"self", "torch"}

    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
        called = node.func if isinstance(node, ast.Call) else None
        changed = isinstance(called, ast.Attribute) and called.attr in LIST_CHANGES
        if any(map(is_ops, targets)) or (changed and is_ops(called.value)):
            yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in {"_ops", "touch"} and not is_own(node):
            yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        "block.ops = []",
        "block.ops += made",
        "self.block.ops[:] = []",
        "del block.ops[0]",
        "loop.body.ops.append(op)",
        "block._ops = []",
        "program.touch()",
    ],
)
def test_changes_of_operators_are_seen(text: str) -> None:
    assert list(changes_of_operators(ast.parse(text)))


def test_only_editors_change_operators() -> None:
    found = {
        f"{name}:{line}"
        for name, tree in parsed_files("ops", "touch")
        if name not in {"ir/block.py", "ir/editor.py", "ir/operator.py", "ir/variable.py"}
        for line in changes_of_operators(tree)
    }
    assert not found
