"""Calls of Paddle 2's functions with random arguments, the same for Paddle and for refluid.

Nothing here knows either: `scripts/paddle2_recordings.py` runs the calls in Paddle's environment.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np


class Given(NamedTuple):
    """An argument to be drawn: float, complex, int or bool, in [low, high), parts alike.

    The kind `ordered` is int64, each no less than the one before.
    """

    kind: str
    shape: tuple[int, ...]
    low: float
    high: float
    fixed: bool  # no gradient

    def draw(self, random: np.random.RandomState) -> np.ndarray[Any, Any]:
        """The array."""
        if self.kind == "float32":
            drawn = random.uniform(self.low, self.high, self.shape)
        elif self.kind == "complex64":
            parts = random.uniform(self.low, self.high, (2, *self.shape))
            drawn = parts[0] + 1j * parts[1]
        else:
            drawn = random.randint(int(self.low), int(self.high), self.shape)
        if self.kind == "ordered":
            return np.sort(drawn).astype("int64")
        return np.asarray(drawn).astype(self.kind)


def f(*shape: int, low: float = -2.0, high: float = 2.0, fixed: bool = False) -> Given:
    """Floats."""
    return Given("float32", shape, low, high, fixed)


def z(*shape: int, low: float = -2.0, high: float = 2.0) -> Given:
    """Complex numbers."""
    return Given("complex64", shape, low, high, False)


def i(*shape: int, low: int = 0, high: int = 5, kind: str = "int64") -> Given:
    """Whole numbers."""
    return Given(kind, shape, low, high, True)


def b(*shape: int) -> Given:
    """True and false."""
    return Given("bool", shape, 0, 2, True)


class Call(NamedTuple):
    """A call. `many`: the first so many arguments are given as one list."""

    function: str
    args: tuple[Any, ...]
    settings: dict[str, Any]

    def arrays(self, name: str) -> list[Any]:
        """The arguments with what was to be drawn, which follows from the name of the case."""
        random = np.random.RandomState(zlib.crc32(name.encode()))
        return [_drawn(one, random) for one in self.args]


def _drawn(given: Any, random: np.random.RandomState) -> Any:
    if isinstance(given, Given):
        return given.draw(random)
    if isinstance(given, list):
        return [_drawn(one, random) for one in given]
    return given


def c(function: str, *args: Any, **settings: Any) -> Call:
    """A call of a function of `paddle`, by its name below it."""
    return Call(function, args, settings)


def numbered(calls: list[Call]) -> dict[str, Call]:
    """Cases by name: the function's and a number."""
    seen: dict[str, int] = {}
    found = {}
    for one in calls:
        seen[one.function] = seen.get(one.function, -1) + 1
        found[f"{one.function}#{seen[one.function]}"] = one
    return found
