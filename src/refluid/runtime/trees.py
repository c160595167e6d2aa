"""What a step is given: lists, tuples and `Formula`s of references and literals.

References are `Name`, `Known` and `CellName`; anything else in a tree is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


class Name(str):
    """A local variable of the plan."""

    __slots__ = ()


class Known(str):
    """A value that the plan is made with, by its name among the constants."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CellName:
    """The scope's cell of a persistable variable; of replica `rank` in a step for all replicas."""

    number: int
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression: Python with a `{}` for each of its parts."""

    form: str
    parts: tuple[Any, ...]


Tree = Any
Reference = Name | CellName

IGNORED = Name("_")
FED, FED_LODS, ROW = Known("F"), Known("L"), Name("N")
COMM, DEVICE, RANDOM, OWN = Known("comm"), Known("device"), Known("random"), Known("own")


def method(value: Tree, name: str, *given: Tree) -> Formula:
    """What a method of a value returns."""
    return Formula(f"{{}}.{name}({', '.join(['{}'] * len(given))})", (value, *given))


def copied(value: Tree) -> Formula:
    """The value in memory of its own."""
    return method(value, "clone")


def entry(value: Tree, position: Tree) -> Formula:
    """One of several values."""
    return Formula("{}[{}]", (value, position))


def called(function: Tree, *given: Tree, **options: Tree) -> Formula:
    """What a function returns, within an expression."""
    holes = ["{}"] * len(given) + [f"{name}={{}}" for name in options]
    return Formula(f"{{}}({', '.join(holes)})", (function, *given, *options.values()))


def value_of(cell: CellName) -> Formula:
    """What the scope holds."""
    return Formula("{}.value", (cell,))


def leaves(tree: Tree) -> list[Any]:
    """What is in nested tuples, lists, dictionaries and formulas, in order."""
    found: list[Any] = []
    _collect((tree,), found)
    return found


def _collect(trees: Iterable[Tree], found: list[Any]) -> None:
    for one in trees:
        kind = type(one)
        if kind is tuple or kind is list:
            _collect(one, found)
        elif kind is Formula:
            _collect(one.parts, found)
        elif kind is dict:
            _collect(one.values(), found)
        elif isinstance(one, list | tuple):
            _collect(one, found)
        else:
            found.append(one)


def mapped(tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """The same nesting with `change` applied to every leaf."""
    kind = type(tree)
    if kind is tuple:
        return tuple([mapped(one, change) for one in tree])
    if kind is list:
        return [mapped(one, change) for one in tree]
    if kind is dict:
        return {key: mapped(one, change) for key, one in tree.items()}
    if kind is Formula:
        return Formula(tree.form, tuple([mapped(one, change) for one in tree.parts]))
    if isinstance(tree, list | tuple):
        return kind(mapped(one, change) for one in tree)
    return change(tree)


def references(*trees: Tree) -> set[Reference]:
    """The variables and cells in trees."""
    return {leaf for leaf in leaves(trees) if type(leaf) is Name or type(leaf) is CellName} - {
        IGNORED
    }
