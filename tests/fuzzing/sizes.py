"""Sequences of sizes for the free dimensions of a program."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)
Sizes = tuple[int, ...]


def _evens_then_odd(draw: Random, largest: int) -> list[int]:
    """What is decided by remainders goes one way for a long time, then the other."""
    step = draw.choice((2, 2, 2, 3))
    seen = list(range(4, 4 + 10 * step, step))
    draw.shuffle(seen)
    return [*seen, *(draw.randrange(min(seen), max(seen)) for _ in range(5))]


def _around(draw: Random, largest: int) -> list[int]:
    step = draw.choice((3, 4, 8))
    return [
        max(1, draw.randrange(1, max(2, largest // step + 1)) * step + draw.choice((-1, 0, 0, 1)))
        for _ in range(12)
    ]


def _ends(draw: Random, largest: int) -> list[int]:
    """Mostly ordinary sizes, then 0 and 1 among them."""
    usual = [draw.randrange(2, largest) for _ in range(9)]
    for size in (0, 1, 1, 0):
        usual.insert(draw.randrange(3, len(usual) + 1), size)
    return usual


def _few(draw: Random, largest: int) -> list[int]:
    own = [draw.randrange(1, largest) for _ in range(draw.choice((1, 2, 3)))]
    return [draw.choice(own) for _ in range(11)]


_KINDS: tuple[tuple[float, Callable[[Random, int], list[int]]], ...] = (
    (2, _few),
    (2, _evens_then_odd),
    (1, _around),
    (1, _ends),
    (1, lambda draw, largest: [draw.choice(_PRIMES) for _ in range(12)]),
    (1, lambda draw, largest: sorted(draw.randrange(1, largest) for _ in range(12))),
    (
        1,
        lambda draw, largest: sorted((draw.randrange(2, largest) for _ in range(12)), reverse=True),
    ),
    (2, lambda draw, largest: [draw.randrange(1, largest) for _ in range(14)]),
)


def sequence(draw: Random, free: int, largest: int) -> list[Sizes]:
    """For each step the sizes of all free dimensions; some of them stay the same."""
    weights = [weight for weight, _ in _KINDS]
    columns = []
    for _ in range(free):
        if free > 1 and draw.random() < 0.4:
            columns.append([draw.choice((1, 2, 3, 5))] * 14)
        else:
            kind = draw.choices(_KINDS, weights)[0][1]
            columns.append(kind(draw, largest))
    if free > 1 and draw.random() < 0.3:  # two dimensions that are always equal
        columns[-1] = columns[-2]
    count = min((len(one) for one in columns), default=8)
    steps = [tuple(one[place] for one in columns) for place in range(count)]
    return steps + steps[-1:] * (4 if draw.random() < 0.3 else 0)
