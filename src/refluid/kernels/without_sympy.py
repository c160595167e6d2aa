"""Torch's shape rules without sympy, where all sizes are numbers.

The rules ask questions of `torch.fx.experimental.symbolic_shapes` that have plain answers unless a
size is symbolic: "is this true?", "are these equal?". The first question imports that module and
sympy: 480 modules, a quarter of a CPU-second. Until somebody needs it, a module stands in its place
that answers for numbers and asks the real one for all else. One more rule imports sympy to see
whether a number is one of its expressions; without sympy none is.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
from functools import reduce, wraps
from operator import and_, or_
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch

from refluid.kernels.parts import IMPORTING_RULES, SHAPE_RULES, part


def _same(value: Any) -> Any:
    return value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


# What they say of numbers, and one name that is imported but not called any more.
NOT_CALLED = "guard_size_oblivious"
ANSWERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("expect_true", "guard_or_false", "guard_or_true"), _same),
    **dict.fromkeys(("statically_known_true", "guard_int"), _same),
    "statically_known_false": lambda value: not value,
    "guarding_hint_or_throw": _same,
    "has_guarding_hint": lambda _: True,
    "is_nested_int": lambda _: False,
    "sym_and": lambda *values: reduce(and_, values),
    "sym_or": lambda *values: reduce(or_, values),
    "sym_eq": _equal,
    "free_unbacked_symbols": lambda _: set(),
    "_advise_is_size": lambda _: None,
    "_advise_is_bounded": lambda *_: None,
}


def _is_plain(value: Any) -> bool:
    """Whether nothing in it is symbolic."""
    kind = type(value)
    if kind in (bool, int):
        return True
    if kind in (tuple, list, torch.Size):
        return all(map(_is_plain, value))
    return kind is torch.Tensor and _is_plain(value.shape) and _is_plain(value.stride())


def _plainly(name: str) -> Callable[..., Any]:
    def ask(*values: Any, **settings: Any) -> Any:
        is_plain = name != NOT_CALLED and not settings and all(map(_is_plain, values))
        return (ANSWERS[name] if is_plain else _real(name))(*values, **settings)

    return ask


def _real(name: str) -> Any:
    """A name of the module itself, which takes its place from now on."""
    if isinstance(sys.modules.get(SHAPE_RULES), _StandIn):
        del sys.modules[SHAPE_RULES]
    return getattr(importlib.import_module(SHAPE_RULES), name)


class _StandIn(ModuleType):
    """Answers for numbers; any other name is the real module's, which it imports."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__path__", "__warningregistry__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _real(name)


def _without_expressions(rule: FunctionType) -> Callable[..., Any]:
    """The rule; without sympy the same code, whose `import sympy` gives an empty class `Basic`."""
    sympy = SimpleNamespace(Basic=type("Basic", (), {}))

    def importing(name: str, *where: Any) -> Any:
        return sympy if name == "sympy" else __import__(name, *where)

    names = {**rule.__globals__, "__builtins__": {**vars(builtins), "__import__": importing}}
    plain = FunctionType(rule.__code__, names, rule.__name__, rule.__defaults__, rule.__closure__)
    plain.__kwdefaults__ = rule.__kwdefaults__

    @wraps(rule)
    def ask(*values: Any, **settings: Any) -> Any:
        has_sympy = hasattr(sys.modules.get("sympy"), "Basic")  # not a file beside a script
        return (rule if has_sympy else plain)(*values, **settings)

    return ask


def stand_in() -> None:
    """From now on shapes are inferred without sympy, unless somebody has imported it."""
    if "sympy" in sys.modules:
        return
    for name in IMPORTING_RULES:
        rule, (owner, _, own) = part(name, None), name.rpartition(".")
        if isinstance(rule, FunctionType):
            setattr(sys.modules[owner], own, _without_expressions(rule))
    owner, _, own = SHAPE_RULES.rpartition(".")
    package = part(owner, None)
    if package is not None and SHAPE_RULES not in sys.modules:
        sys.modules[SHAPE_RULES] = module = _StandIn(SHAPE_RULES)
        module.__dict__.update({name: _plainly(name) for name in (*ANSWERS, NOT_CALLED)})
        setattr(package, own, module)
