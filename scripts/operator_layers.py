"""Which public functions and classes append an operator, read from their code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from refluid import fluid
from refluid.ops.registry import find

MODULES = (
    "layers",
    "input",
    "nets",
    "optimizer",
    "initializer",
    "regularizer",
    "clip",
    "contrib.layers",
)
PACKAGE = ("refluid.fluid", "refluid.build.constants", "refluid.build.weight_norm")
NAMING = {"LayerHelper", "getattr", "attr", "get", "pop", "format"}
SKIPPED = (ast.arguments, ast.Compare, ast.Dict)
HOLE = "{}"
OF_HELPER = "layer_type"  # `helper.layer_type`: the name that a LayerHelper was made with


@cache
def layers_by_operator() -> dict[str, list[str]]:
    """Operator type -> `layers.fc` and the like, by name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module_name in MODULES:
        module: Any = fluid
        for part in module_name.split("."):
            module = getattr(module, part)
        public = set(getattr(module, "__all__", ()))
        for name in public:
            for op_type in _types(_strings(getattr(module, name, None), public, set())):
                found[op_type].add(f"{module_name}.{name}")
    return {op_type: sorted(names) for op_type, names in found.items()}


def _types(strings: set[str]) -> Iterator[str]:
    """Those that are operators, and operators that are put together: `depthwise_{}`."""
    if OF_HELPER in strings:
        strings = {one.removeprefix(OF_HELPER) for one in strings}
    for one in strings:
        options = strings if HOLE in one else {""}
        for other in options:
            whole = one.replace(HOLE, other.lower())
            if find(whole) is not None:
                yield whole


def _strings(thing: Any, public: set[str], seen: set[int]) -> set[str]:
    """Strings by which a function or class, or what is not public in it, may name an operator.

    What another public layer appends is that layer's.
    """
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if id(thing) in seen:
        return set()
    seen.add(id(thing))
    if not isinstance(thing, FunctionType | type):
        return _listed(thing)
    if not (thing.__module__ or "").startswith(PACKAGE):
        return set()
    tree = _tree(thing)
    if tree is None:
        return set()
    cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
    found = set(_literals(tree)).union(*(_listed(cell) for cell in cells))
    inherited = thing.__bases__ if isinstance(thing, type) and not set(_types(found)) else ()
    for other in (*inherited, *_named(tree, thing, public)):
        found |= _strings(other, public, seen)
    return found


def _tree(thing: FunctionType | type) -> ast.AST | None:
    """The code of a function or class."""
    at = thing.__code__.co_firstlineno if isinstance(thing, FunctionType) else thing.__qualname__
    try:
        known = _definitions(inspect.getsourcefile(thing) or "").get(at)
        return known or ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, SyntaxError):
        return None


@cache
def _definitions(file: str) -> dict[int | str, ast.AST]:
    """A file's functions by their first lines, and its outermost classes by their names."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    found: dict[int | str, ast.AST] = {
        min(one.lineno for one in (node, *node.decorator_list)): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    return found | {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _literals(node: ast.AST) -> Iterator[str]:
    """Strings in code, but for keys, attributes, defaults and what is compared with."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Attribute) and node.attr == OF_HELPER:
        yield OF_HELPER
    elif isinstance(node, ast.Call) and _called(node) == "LayerHelper":
        yield from (OF_HELPER + one for one in _literals(node.args[0]))
    elif isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else HOLE for one in node.values]
        yield "".join(str(part) for part in parts)
    elif isinstance(node, ast.Subscript):
        yield from _literals(node.value)
    elif isinstance(node, ast.keyword) and node.arg not in ("type", "op_type"):
        if isinstance(node.value, ast.Call):
            yield from _literals(node.value)
    elif not isinstance(node, SKIPPED) and _called(node) not in NAMING:
        for child in ast.iter_child_nodes(node):
            yield from _literals(child)


def _called(node: ast.AST) -> str:
    """The name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _listed(value: Any) -> set[str]:
    """The strings of a table."""
    if isinstance(value, str):
        return {value}
    values = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(values, tuple | list):
        return set()
    return {text for one in values for text in _listed(one)}


def _named(tree: ast.AST, thing: Any, public: set[str]) -> Iterator[Any]:
    """Functions, classes and tables of the module that the code names and that are not public."""
    module = inspect.getmodule(thing)
    space = vars(module) if isinstance(module, ModuleType) else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in space and node.id not in public | NAMING:
            yield space[node.id]
