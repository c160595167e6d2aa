"""Which public functions and classes append an operator, read from their code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from refluid import fluid
from refluid.ops.registry import find

MODULES = (
    "layers",
    "nets",
    "optimizer",
    "initializer",
    "regularizer",
    "clip",
    "contrib.layers",
)
PACKAGE = "refluid.fluid"
NAMED_ONLY = {"LayerHelper", "LayerHelperBase", "check_type", "getattr"}


def layers_by_operator() -> dict[str, list[str]]:
    """Operator type -> `layers.fc` and the like, by name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module_name in MODULES:
        module: Any = fluid
        for part in module_name.split("."):
            module = getattr(module, part)
        public = set(getattr(module, "__all__", ()))
        for name in public:
            for op_type in appended(getattr(module, name, None), public, set()):
                found[op_type].add(f"{module_name}.{name}")
    return {op_type: sorted(names) for op_type, names in found.items()}


def appended(thing: Any, public: set[str], seen: set[int]) -> set[str]:
    """Operator types that a function or class appends itself, or by what it calls inside.

    What another public layer appends is that layer's.
    """
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if id(thing) in seen or not isinstance(thing, FunctionType | type):
        return set()
    seen.add(id(thing))
    if not (thing.__module__ or "").startswith(PACKAGE):
        return set()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, SyntaxError):
        return set()
    found = {one for one in _literal_types(tree) if find(one)}
    found |= {one for one in _captured(thing) if find(one)}
    for helper in _helpers(tree, thing, public):
        found |= appended(helper, public, seen)
    return found


def _literal_types(tree: ast.AST) -> Iterator[str]:
    """Strings that are the first argument of a call, or its `type`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _name(node.func) in NAMED_ONLY:
            continue
        given = node.args[:1] + [word.value for word in node.keywords if word.arg == "type"]
        for value in given:
            options = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            for one in options:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value


def _captured(thing: Any) -> Iterator[str]:
    """What a function made from a table was made for; the `type` of an optimizer."""
    values = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
    if isinstance(thing, type):
        values.append(getattr(thing, "type", None))
    yield from (value for value in values if isinstance(value, str))


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _helpers(tree: ast.AST, thing: Any, public: set[str]) -> Iterator[Any]:
    """Functions and classes of this package that the code names and that are not public."""
    module = inspect.getmodule(thing)
    space = vars(module) if isinstance(module, ModuleType) else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in space and node.id not in public | NAMED_ONLY:
            yield space[node.id]
