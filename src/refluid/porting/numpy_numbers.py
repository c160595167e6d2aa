"""What NumPy made of numbers and arrays before, and where a file may need that.

A float32 array times `np.sqrt(2)`, or times an element of `np.linspace`, was float32 before NumPy 2
and is float64 since; a fed array is refused then. Which operations these may be is found in the
file's text, name by name and whatever function a name is in, so that others aren't slowed down:
whether it is one, `given_back.combined` sees when it runs.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator

_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
# Methods of arrays that give numbers, and functions that hand on what they are given.
_GIVE = frozenset({"max", "mean", "min", "prod", "std", "sum", "var"})
_HAND_ON = frozenset({"enumerate", "reversed", "zip"})


@functools.cache
def numbers_are_refused() -> bool:
    """Whether `float(np.ones(1))` is an error, as it is since NumPy 2.4."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            float(np.ones(1))
        except TypeError:
            return True
    return False


def print_plainly() -> None:
    """`[np.int64(1)]` prints as `[1]`, as before NumPy 2: scripts write such lists into files, and
    compare their texts."""
    import numpy as np

    if repr(np.int64(1)) != "1":
        np.set_printoptions(legacy="1.25")


def symbol_of(node: ast.BinOp) -> str:
    """How an operation is spelled, if it is one of those that are looked at; else ""."""
    return _SYMBOLS.get(type(node.op), "")


class NumpyValues:
    """What of a file may be a number or an array of NumPy's, or hold some."""

    def __init__(self, tree: ast.Module) -> None:
        self._modules = set(_modules(tree))
        self._names: set[str] = set()
        pairs = list(_bindings(tree)) if self._modules else []
        known = -1
        while known < len(self._names):  # what is made of such values is one
            known = len(self._names)
            for target, value in pairs:
                if self.may_be(value):
                    self._names.update(_bound(target))

    def may_be(self, node: ast.expr) -> bool:
        """Whether an expression may be one."""
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name in self._names
            case ast.Call(func=ast.Name(id=name), args=args):
                return name in _HAND_ON and any(map(self.may_be, args))
            case ast.Call(func=ast.Attribute(attr=name) as function):
                return name in _GIVE or root_name(function) in self._modules
            case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
                return self.may_be(one) or self.may_be(other)
            case ast.Subscript(value=one) | ast.UnaryOp(operand=one) | ast.Starred(value=one):
                return self.may_be(one)
        return False


def _modules(tree: ast.Module) -> Iterator[str]:
    """The names by which the file knows NumPy."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "numpy":
                    yield one.asname or "numpy"


def _bindings(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is bound in the file, and what to, or to elements of what."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield target, value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield target, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            yield from zip(targets, values, strict=True)
        case _:
            yield target, value


def _bound(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Subscript(value=one) | ast.Starred(value=one):
            yield from _bound(one)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for one in targets:
                yield from _bound(one)


def root_name(node: ast.expr) -> str:
    """`np` of `np.linalg.norm`; "" where it begins with no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
