"""Rewrites a user's module so that names that are gone are asked of `given_back`.

np.int                         -> attribute(np, "int", FILE, LINE)
from collections import Mapping -> Mapping = imported("collections", "Mapping", FILE, LINE)
import cPickle as pickle       -> pickle = renamed("cPickle", FILE, LINE)
xrange(3)                      -> xrange = builtin("xrange", FILE, LINE) before the first statement

np.reshape(a, newshape=b)      -> by_present_keywords(np.reshape)(a, newshape=b)
int(a), "%f" % a, math.exp(a)  -> whole(a), formatted("%f", a), of_numbers(math.exp)(a),
                                  where NumPy refuses arrays of (1,)
type(a)                        -> kind(a), to which a fetched array is one of NumPy's
x * np.sqrt(2)                 -> combined("*", x, np.sqrt(2)), where such numbers make x wider

Imports stay that are tried where what catches their failure imports something else in their place:
what follows may need that, which the old name doesn't give.

and in a file of Python 2:
map(f, a)                      -> map = of_python2("map") before the first statement
a.keys()                       -> method_of_python2(a, "keys")()
a / b                          -> divided(a, b)
a /= b                         -> a = divided_in_place(a, b)

Lines stay where they are, so tracebacks show the file as it is.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator
from typing import TypeVar

from refluid.core.arrays import NUMBERS_ARE_STRONG
from refluid.porting.numpy_numbers import (
    NumpyValues,
    numbers_are_refused,
    root_name,
    symbol_of,
)
from refluid.porting.old_names import (
    BUILTINS,
    CHANGED,
    FILES,
    KEYWORDS,
    LISTS,
    METHODS,
    MODULES,
    RENAMED,
    WITH_BYTES,
    WITH_LISTS,
)

_Node = TypeVar("_Node", bound=ast.AST)
_HELP = "_refluid_given_back"
_ATTRIBUTES = frozenset(METHODS) | {name for _, name in CHANGED}
_ATTRIBUTES |= {name for module, names in MODULES.items() if module != "scipy" for name in names}
_NUMBERS = re.compile(r"\b(int|float|type)\(|[\"')]\s*%|%\s*\(|\bmath\.\w+\(")
_KINDS = {"type": "kind"}
_CONVERTS = {"int": "whole", "float": "real"} | _KINDS
_MODULE_NAMES = {(module, name) for module, names in MODULES.items() for name in names}
_MODULE_NAMES |= set(CHANGED)
_WORDS = re.compile(
    rf"\b({'|'.join(sorted({*_ATTRIBUTES, *BUILTINS, *RENAMED, *KEYWORDS, 'scipy'}))})\b"
)


def may_need(source: str) -> bool:
    """Whether any of the names occurs in the text at all."""
    return (
        _WORDS.search(source) is not None
        or _NUMBERS.search(source) is not None
        or ("numpy" in source and NUMBERS_ARE_STRONG)
    )


def rewrite(
    tree: ast.Module, file: str, *, lists: bool = False, files: bool = False, divides: bool = False
) -> bool:
    """Rewrites the tree in place; whether anything was changed.

    lists, files, divides: what is as in Python 2, divides being division of whole numbers.
    """
    methods = {*(WITH_LISTS if lists else ()), *(WITH_BYTES if files else ())}
    rewriter = _Rewriter(file, methods, divides)
    rewriter.converts = _free(tree, _CONVERTS if numbers_are_refused() else _KINDS)
    rewriter.numpy = NumpyValues(tree) if NUMBERS_ARE_STRONG else None
    rewriter.visit(tree)
    missing = _used(tree, BUILTINS)
    other = _used(tree, {*(LISTS if lists else ()), *(FILES if files else ())})
    if not rewriter.changed and not missing and not other:
        return False
    start = _first_statement(tree)
    head: list[ast.stmt] = [
        ast.ImportFrom("refluid.porting", [ast.alias("given_back", _HELP)], 0),
        *(
            _assigned(name, rewriter.call("builtin", name, line=line))
            for name, line in missing.items()
        ),
        *(_assigned(name, rewriter.call("of_python2", name)) for name in other),
    ]
    for one in head:
        ast.copy_location(one, ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0))
    tree.body[start:start] = head
    ast.fix_missing_locations(tree)
    return True


def _first_statement(tree: ast.Module) -> int:
    """After the docstring and imports from __future__."""
    start = 0
    for place, one in enumerate(tree.body):
        docstring = place == 0 and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if not docstring and not (isinstance(one, ast.ImportFrom) and one.module == "__future__"):
            break
        start = place + 1
    return start


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Names that a file gives a meaning of its own, anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def _used(tree: ast.AST, names: Container[str]) -> dict[str, int]:
    """Those names that a file uses and doesn't define, with the first line of each."""
    used: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            used[node.id] = min(used.get(node.id, node.lineno), node.lineno)
    bound = set(bound_names(tree)) if used else set()
    return {name: line for name, line in used.items() if name not in bound}


def _free(tree: ast.AST, names: dict[str, str]) -> dict[str, str]:
    """Those of builtins that a file gives no meaning of its own."""
    bound = set(bound_names(tree))
    return {name: stands for name, stands in names.items() if name not in bound}


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


# Whom an import that fails gets to.
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def _has_instead(node: ast.Try) -> bool:
    """Whether imports that fail in it are followed by others, and the script goes on."""
    for handler in node.handlers:
        caught = (
            {one.id for one in ast.walk(handler.type) if isinstance(one, ast.Name)}
            if handler.type
            else _CATCHES
        )
        if caught & _CATCHES:
            imports = any(isinstance(one, ast.Import | ast.ImportFrom) for one in handler.body)
            return imports and not any(isinstance(one, ast.Raise) for one in handler.body)
    return False


# What can be no array.
_SIMPLE = (ast.Constant, ast.Starred, ast.JoinedStr)


def _is_text(node: ast.expr) -> bool:
    """Whether it is text for certain, which may be made of parts."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or (isinstance(node.op, ast.Add) and _is_text(node.right))
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_formatted(node: ast.BinOp) -> bool:
    """Whether `%` puts values into a text: of numbers none has a tuple on its right."""
    return isinstance(node.op, ast.Mod) and (
        _is_text(node.left) or isinstance(node.right, ast.Tuple)
    )


class _Rewriter(ast.NodeTransformer):
    def __init__(self, file: str, methods: set[str], divides: bool) -> None:
        self._file, self._methods, self._divides = file, methods, divides
        self.changed = False
        self.converts: dict[str, str] = {}
        self.numpy: NumpyValues | None = None
        self._stay: set[ast.stmt] = set()

    def call(self, function: str, *given: ast.expr | str, line: int | None = None) -> ast.Call:
        """A call of what `given_back` has, with the place in the file where a line is given."""
        args = [one if isinstance(one, ast.expr) else ast.Constant(one) for one in given]
        if line is not None:
            args += [ast.Constant(self._file), ast.Constant(line)]
        name = ast.Attribute(ast.Name(_HELP, ast.Load()), function, ast.Load())
        return ast.Call(name, args, [])

    def _put(self, new: _Node, old: ast.AST) -> _Node:
        self.changed = True
        return ast.copy_location(new, old)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr in self._methods and isinstance(node.ctx, ast.Load):
            return self._put(self.call("method_of_python2", node.value, node.attr), node)
        of_scipy = node.attr in MODULES["scipy"] and getattr(node.value, "id", "") == "scipy"
        if not (node.attr in _ATTRIBUTES or of_scipy) or not isinstance(node.ctx, ast.Load):
            return node
        return self._put(self.call("attribute", node.value, node.attr, line=node.lineno), node)

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        if _has_instead(node):
            self._stay.update(node.body)
        self.generic_visit(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        module = node.module or ""
        gone = [
            one
            for one in node.names
            if not node.level
            and node not in self._stay
            and one.name != "*"
            and (module in RENAMED or (module, one.name) in _MODULE_NAMES)
        ]
        if not gone:
            return node
        new: list[ast.stmt] = []
        rest = [one for one in node.names if one not in gone]
        if rest:
            new.append(ast.copy_location(ast.ImportFrom(module, rest, 0), node))
        for one in gone:
            value = self.call("imported", module, one.name, line=node.lineno)
            new.append(self._put(_assigned(one.asname or one.name, value), node))
        return new

    def visit_Import(self, node: ast.Import) -> ast.stmt | list[ast.stmt]:
        if node in self._stay or not any(one.name in RENAMED for one in node.names):
            return node
        new: list[ast.stmt] = []
        for one in node.names:
            if one.name in RENAMED:
                value = self.call("renamed", one.name, line=node.lineno)
                new.append(self._put(_assigned(one.asname or one.name, value), node))
            else:
                new.append(ast.copy_location(ast.Import([one]), node))
        return new

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if any(one.arg in KEYWORDS for one in node.keywords):
            called = self.call("by_present_keywords", node.func)
            node.func = self._put(called, node.func)
            return node
        of_math = isinstance(node.func, ast.Attribute) and root_name(node.func) == "math"
        if of_math and numbers_are_refused():
            node.func = self._put(self.call("of_numbers", node.func), node.func)
            return node
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        plain = len(node.args) == 1 and not node.keywords
        if name not in self.converts or not plain or isinstance(node.args[0], _SIMPLE):
            return node
        return self._put(self.call(self.converts[name], node.args[0]), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        symbol = symbol_of(node) if self.numpy and self.numpy.may_be(node) else ""
        self.generic_visit(node)
        if numbers_are_refused() and _is_formatted(node):
            return self._put(self.call("formatted", node.left, node.right), node)
        if self._divides and isinstance(node.op, ast.Div):
            return self._put(self.call("divided", node.left, node.right), node)
        if not symbol or isinstance(node.left, _SIMPLE) or isinstance(node.right, _SIMPLE):
            return node
        return self._put(self.call("combined", symbol, node.left, node.right), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """What the target is made of is evaluated twice: where it calls anything it is left."""
        self.generic_visit(node)
        calls = any(isinstance(one, ast.Call) for one in ast.walk(node.target))
        if calls or not self._divides or not isinstance(node.op, ast.Div):
            return node
        read = copy.copy(node.target)
        read.ctx = ast.Load()
        value = self.call("divided_in_place", read, node.value)
        return self._put(ast.Assign([node.target], value), node)
