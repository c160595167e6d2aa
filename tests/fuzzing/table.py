"""The table of layers that random programs are made of."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

Layer = Callable[["Net", Any], Any]


class Unsuited(Exception):
    """This layer can't follow the variable it was given."""


@dataclass(frozen=True)
class Row:
    """A layer: which kinds of variables it takes, and how often it is drawn."""

    name: str
    make: Layer
    ranks: frozenset[int]
    ragged: bool
    weight: float
    exact: bool


@dataclass
class Net:
    """A program while it is built: what its layers may draw from.

    draw: random numbers of this layer alone. made: float variables so far, to be used again.
    """

    draw: Random
    made: list[Any]

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return self.draw.random() < share

    def one(self, *choices: Any) -> Any:
        """One of the choices."""
        return self.draw.choice(choices)

    def axis(self, x: Any, first: int = 0) -> int:
        """An axis of x from `first` on, sometimes counted from behind."""
        axis = self.draw.randrange(first, len(x.shape))
        return axis - len(x.shape) if self.chance(0.3) else axis

    def like(self, x: Any) -> Any:
        """A variable made before, or x, of the rank of x."""
        return self.draw.choice([one for one in self.made if one.shape == x.shape] or [x])


_ROWS: dict[str, Row] = {}


def layer(
    ranks: Sequence[int] = (2, 3, 4),
    *,
    ragged: bool = False,
    weight: float = 1.0,
    exact: bool = False,
) -> Callable[[Layer], Layer]:
    """Adds a layer to the table under its function's name.

    ranks: of the variables it takes. ragged: it takes those with sequences. exact: a small change
    of its input may change its result a lot (ties, floors), so only equal bits can be compared.
    """

    def add(make: Layer) -> Layer:
        name = make.__name__
        assert name not in _ROWS, f"two layers are called {name}"
        _ROWS[name] = Row(name, make, frozenset(ranks), ragged, weight, exact)
        return make

    return add


def known(size: int | None) -> bool:
    """Whether a size is the same for all feeds."""
    return size is not None and size >= 0


def need(condition: object) -> None:
    """Raises Unsuited unless the condition holds."""
    if not condition:
        raise Unsuited


@cache
def rows() -> dict[str, Row]:
    """All layers by name."""
    package = importlib.import_module("tests.fuzzing.layers")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tests.fuzzing.layers.{module.name}")
    return dict(sorted(_ROWS.items()))
