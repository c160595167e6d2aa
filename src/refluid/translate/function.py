"""A function rewritten, compiled at the places of its own source, and given its own closure."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from refluid.translate.building import ASKED, FreshNames, ask, assign, function, placed
from refluid.translate.changed import bound
from refluid.translate.control import Control
from refluid.translate.expressions import Expressions
from refluid.translate.jumps import lowered
from refluid.translate.source import Definition, Untranslatable, definition, refuse

_NAME = f"{ASKED}_function"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Translation:
    """A translated function: what is to be called, and its source for people to read."""

    function: Callable[..., Any]
    text: str


@dataclass(frozen=True)
class _TranslatedCode:
    code: CodeType
    text: str


_written: dict[CodeType, _TranslatedCode] = {}


# What the source of each translated function is given to.
show: Callable[[str], None] | None = None


def translated(given: FunctionType, asked: Any) -> Translation:
    """`given` with its control flow asking `asked`. Untranslatable where that can't be done."""
    known = _written.get(given.__code__)
    if known is None:
        known = _written[given.__code__] = _write(given)
        if show is not None:
            show(known.text)
    cells = dict(zip(given.__code__.co_freevars, given.__closure__ or (), strict=True))
    cells[ASKED] = CellType(asked)
    closure = tuple(cells[name] for name in known.code.co_freevars)
    made = FunctionType(known.code, given.__globals__, given.__name__, given.__defaults__, closure)
    made.__kwdefaults__ = given.__kwdefaults__
    made.__dict__.update(given.__dict__)
    made.__qualname__, made.__doc__ = given.__qualname__, given.__doc__
    made.__module__ = given.__module__
    return Translation(made, known.text)


def _write(given: FunctionType) -> _TranslatedCode:
    found = definition(given)
    node = _as_function(found)
    tree = _rewritten(node, found)
    text, node.name = ast.unparse(tree), _NAME  # its own name may be one that it has from around it
    # What the function has from around it are parameters of a function around it.
    around = [*given.__code__.co_freevars, ASKED]
    outer = placed([function("_around", around, [tree])], tree)
    whole = ast.fix_missing_locations(ast.Module(outer, []))
    code = compile(whole, found.file, "exec", flags=_future(given), dont_inherit=True)
    made = _inner(_inner(code, "_around"), _NAME)
    return _TranslatedCode(made.replace(co_name=given.__code__.co_name), text)


def _future(given: FunctionType) -> int:
    import __future__

    flags = given.__code__.co_flags
    return sum(
        feature.compiler_flag
        for name in __future__.all_feature_names
        if (feature := getattr(__future__, name)).compiler_flag & flags
    )


def _inner(code: CodeType, name: str) -> CodeType:
    for one in code.co_consts:
        if isinstance(one, CodeType) and one.co_name == name:
            return one
    raise AssertionError(f"{name} is not in {code.co_name}")


def _as_function(found: Definition) -> ast.FunctionDef:
    node = found.node
    if isinstance(node, ast.AsyncFunctionDef):
        raise refuse(found.file, node, "an async function can't become a program")
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(copy.deepcopy(node.body)), node)]
        return ast.copy_location(
            ast.FunctionDef("function", copy.deepcopy(node.args), body, []), node
        )
    made = copy.deepcopy(node)
    made.decorator_list = []
    made.returns = None
    for one in ast.walk(made.args):
        if isinstance(one, ast.arg):
            one.annotation = None
    return made


def _rewritten(node: ast.FunctionDef, found: Definition) -> ast.FunctionDef:
    if found.owner is not None:
        _Mangling(found.owner).visit(node)
    # Defaults are those that the function has already.
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [one and ast.Constant(None) for one in node.args.kw_defaults]
    names = FreshNames(node)
    parameters = [one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)]
    shared = _declared(node.body, ast.Global)
    outer = _declared(node.body, ast.Nonlocal)
    body = lowered(node.body, names)
    own = ({*bound(body), *parameters}) - shared - outer
    for number, one in enumerate(body):
        body[number] = Expressions(found.file, parameters[0] if parameters else None).visit(one)
    control = Control(names, own, shared, outer)
    made = control.block(body)
    there = {*parameters, *bound(itertools.takewhile(_is_plain, body))}
    missing = [one for one in control.hoisted if one not in there]
    starts = [assign(one, ask("unset", ast.Constant(one))) for one in missing]
    node.body = [*placed(starts, node.body[0]), *made]
    return node


def _is_plain(one: ast.AST) -> bool:
    return isinstance(one, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom | ast.Expr)


def _declared(body: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    found: set[str] = set()
    for one in body:
        if isinstance(one, kind):
            found |= set(one.names)
        elif not isinstance(one, _SCOPES):
            found |= _declared(ast.iter_child_nodes(one), kind)
    return found


class _Mangling(ast.NodeTransformer):
    """`__x` within a class is `_Class__x`."""

    def __init__(self, owner: str) -> None:
        self.prefix = f"_{owner.lstrip('_')}"

    def _own(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__")
        return self.prefix + name if private else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._own(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._own(node.attr)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._own(node.arg)
        return node


__all__ = ["Translation", "Untranslatable", "translated"]
