"""What an operator does besides giving its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Flag, auto


class Effect(Flag):
    """What else an operator does.

    STATE: it changes values that others hold, as parameters. RANDOM: it takes random numbers.
    COMM: it exchanges values with other replicas. HOST: it reads, prints, writes files, or calls
    Python functions of the user's.
    """

    NONE = 0
    STATE = auto()
    RANDOM = auto()
    COMM = auto()
    HOST = auto()


# What acts outside the step: of these the order counts even where no value is passed on.
OUTSIDE = Effect.RANDOM | Effect.COMM | Effect.HOST
# What must happen even if nobody reads an output.
LASTING = Effect.STATE | Effect.COMM | Effect.HOST
EVERY = OUTSIDE | LASTING


def declared(
    effects: str, context: Collection[str] = (), mutates: Mapping[str, str] | None = None
) -> Effect:
    """The effects that are named (`"host"`), and those that follow from the signature."""
    names = {*effects.split(), *({"random", "comm"} & set(context))}
    found = Effect.STATE if mutates else Effect.NONE
    for name in names:
        found |= Effect[name.upper()]
    return found
