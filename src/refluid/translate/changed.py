"""What statements change: names they bind, attributes they set, containers they fill.

A place is a path of names, `x` or `self.state`. Functions that are defined or called on the way
aren't looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from refluid.translate.building import CALLEE

# Methods by which lists, dictionaries and sets change.
_FILLING = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"}
    | {"remove", "reverse", "setdefault", "sort", "update"}
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def path(node: ast.AST) -> str | None:
    """`a.b.c` of a name or of attributes of one; None for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = path(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


class _Changes(ast.NodeVisitor):
    def __init__(self) -> None:
        self.bound: dict[str, None] = {}
        self.places: dict[str, None] = {}

    def bind(self, name: str) -> None:
        self.bound[name] = self.places[name] = None

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            self.bind(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        elif not isinstance(node, ast.Lambda):
            self._look(node)
            self.generic_visit(node)

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                self.bind(node.id)
            case ast.Attribute(ctx=ast.Store()):
                self._place(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                self._place(node.value)
            case ast.Call(func=function):
                self._call(function)
            case ast.alias():
                self.bind((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                self.bind(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.bind(name)
            case ast.MatchMapping(rest=str(name)):
                self.bind(name)

    def _call(self, function: ast.AST) -> None:
        if isinstance(function, ast.Call) and path(function.func) == CALLEE:
            function = function.args[0]
        if isinstance(function, ast.Attribute) and function.attr in _FILLING:
            self._place(function.value)

    def _place(self, node: ast.AST) -> None:
        found = path(node)
        if found is not None:
            self.places[found] = None

    def _comprehension(self, node: ast.AST) -> None:
        for one in ast.walk(node):
            if isinstance(one, ast.NamedExpr):
                self._look(one.target)
            elif isinstance(one, ast.Call):
                self._call(one.func)


def changed(nodes: Iterable[ast.AST]) -> list[str]:
    """The places that nodes change, in the order in which they do."""
    return [*_looked(nodes).places]


def bound(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that nodes bind."""
    return [*_looked(nodes).bound]


def _looked(nodes: Iterable[ast.AST]) -> _Changes:
    found = _Changes()
    for node in nodes:
        found.visit(node)
    return found
