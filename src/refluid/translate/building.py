"""Pieces of Python's syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

StatementList = list[ast.stmt]
# Under this name translated functions find what their control flow asks.
ASKED = "_translated"
# What calls of the user's go through.
CALLEE = f"{ASKED}.callee"


def load(name: str) -> ast.expr:
    """The value of `a` or `a.b`."""
    head, *rest = name.split(".")
    found: ast.expr = ast.Name(head, ast.Load())
    for one in rest:
        found = ast.Attribute(found, one, ast.Load())
    return found


def ask(question: str, *given: ast.expr) -> ast.expr:
    """`_translated.question(*given)`."""
    return ast.Call(load(f"{ASKED}.{question}"), list(given), [])


def assign(name: str, value: ast.expr) -> ast.stmt:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def assign_bool(name: str, value: bool) -> ast.stmt:
    """`name = True` or `name = False`."""
    return assign(name, ast.Constant(value))


def unnamed(value: ast.expr, *parameters: str) -> ast.expr:
    """`lambda *parameters: value`."""
    return ast.Lambda(_parameters(parameters), value)


def function(name: str, parameters: Sequence[str], body: Iterable[ast.stmt]) -> ast.stmt:
    """`def name(*parameters): body`."""
    return ast.FunctionDef(name, _parameters(parameters), [*body] or [ast.Pass()], [])


def _parameters(names: Sequence[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def placed(nodes: Iterable[ast.stmt], where: ast.AST) -> list[ast.stmt]:
    """New statements, at the place of the statement that they stand for."""
    found = [*nodes]
    for node in found:
        for one in ast.walk(node):
            if "lineno" in one._attributes and not hasattr(one, "lineno"):
                ast.copy_location(one, where)
    return found


class FreshNames:
    """Hands out names that a function doesn't use."""

    def __init__(self, tree: ast.AST) -> None:
        self._used = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
        self._used |= {one.arg for one in ast.walk(tree) if isinstance(one, ast.arg)}

    def new(self, stem: str) -> str:
        """A name that starts with `stem`."""
        number = 0
        while f"{stem}_{number}" in self._used:
            number += 1
        self._used.add(f"{stem}_{number}")
        return f"{stem}_{number}"
