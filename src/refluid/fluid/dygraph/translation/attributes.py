"""Attributes of layers that a function changes: what they hold goes into its program and out.

    self.hidden = layers.tanh(self.linear(x) + self.hidden)

A program is built once, and runs in each call. So tensors that attributes hold are fed to it, those
that it leaves in them are results, and numbers or texts decide which program it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.eager import VarBase
from refluid.fluid.dygraph.layers import Layer
from refluid.ir.variable import Variable

_log = logging.getLogger("refluid")
_PLAIN = (bool, int, float, str, bytes, type(None))
_OURS = __name__.partition(".")[0]
# How many programs numbers and texts in attributes may ask for.
MOST = 8
# The attribute of a layer under which its `ChangedAttributes` are kept.
_KEPT = "_declarative_attributes"
_NOT_USERS = frozenset(vars(Layer("none"))) | {_KEPT, "_declarative_programs"}


class _Missing:
    """What an attribute holds that isn't there."""

    def __repr__(self) -> str:
        return "<no attribute>"


MISSING = _Missing()
Place = tuple[Any, str]


class Change:
    """An attribute that a function has given another value, or to whose list it has added."""

    def __init__(self, place: Place, value: Any, *, within: bool) -> None:
        self.place, self.value, self.within = place, value, within

    def put(self, value: Any) -> None:
        """Gives the attribute what a run has left in it."""
        _put(self.place, value, within=self.within)


class ChangedAttributes:
    """Those that functions of a layer have changed so far, of it and its layers."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._left: list[Place] = []
        self._seen: set[Any] = set()

    def values(self) -> tuple[Any, ...]:
        """What they hold now, where that may ask for another program."""
        values = [_held(place) for place in self.places]
        self._seen.add(tuple([_plain(one) for one in values]))
        if len(self._seen) <= MOST:
            return tuple(values)
        self._seen.clear()
        for place, value in zip([*self.places], values, strict=True):
            if not isinstance(value, VarBase):
                self._leave(place, value)
        return tuple([_held(place) for place in self.places])

    def note(self, changes: Sequence[Change]) -> bool:
        """Adds those that were changed. Whether there were new ones."""
        new = [one for one in self.of_programs(changes) if not _among(one.place, self.places)]
        self.places += [one.place for one in new]
        return bool(new)

    def of_programs(self, changes: Sequence[Change]) -> list[Change]:
        """Without those that ask for no more programs."""
        return [one for one in changes if not _among(one.place, self._left)]

    def _leave(self, place: Place, value: Any) -> None:
        self.places.remove(place)
        self._left.append(place)
        _log.warning(
            "attribute %r of %s is another one in each call of a declarative function: %d "
            "programs were built for what it holds, and from now on it stays %r in them. Change "
            "it outside of the function, or have it hold a tensor",
            place[1],
            type(place[0]).__name__,
            MOST,
            value,
        )


def attributes_of(owner: Any) -> ChangedAttributes | None:
    """Those of a layer; None where its functions have changed none."""
    found: ChangedAttributes | None = vars(owner).get(_KEPT)
    return found


def noted(owner: Any, changes: Sequence[Change]) -> bool:
    """Keeps which attributes were changed. Whether it wasn't known of all."""
    found: ChangedAttributes = vars(owner).setdefault(_KEPT, ChangedAttributes())
    return found.note(changes)


@contextmanager
def watched(owner: Any, places: Sequence[Place], values: Sequence[Any]) -> Iterator[list[Change]]:
    """Attributes hold these values within, and after it what they held before.

    Gives a list, in which the changes are at the end.
    """
    changes: list[Change] = []
    if not isinstance(owner, Layer):
        yield changes
        return
    held = [_held(place) for place in places]
    for place, value in zip(places, values, strict=True):
        _put(place, value)
    before = [
        (layer, {name: (value, _copied(value)) for name, value in vars(layer).items()})
        for layer in (owner, *owner.sublayers())
        if _users(layer)
    ]
    try:
        yield changes
    finally:
        found = [one for layer, values in before for one in _changes(layer, values)]
        changes += found if (known := attributes_of(owner)) is None else known.of_programs(found)
        former = {id(layer): values for layer, values in before}
        for layer, name in (one.place for one in changes):
            _restore((layer, name), *former[id(layer)].get(name, (MISSING, None)))
        for place, value in zip(places, held, strict=True):
            _put(place, value)


def _changes(layer: Any, before: dict[str, tuple[Any, Any]]) -> Iterator[Change]:
    for name, value in vars(layer).items():
        old, copy = before.get(name, (MISSING, None))
        within = value is old and type(value) in (list, dict) and not _same(value, copy)
        if name in _NOT_USERS or (value is old and not within) or not _told(value):
            continue
        if old is MISSING or _told(copy if within else old):
            yield Change((layer, name), _copied(value), within=within)


def _held(place: Place) -> Any:
    return vars(place[0]).get(place[1], MISSING)


def _put(place: Place, value: Any, *, within: bool = False) -> None:
    layer, name = place
    own: dict[str, Any] = layer.__dict__
    if value is MISSING:
        own.pop(name, None)
    elif within:
        held = own[name]
        held.clear()
        held.extend(value) if type(held) is list else held.update(value)
    else:
        own[name] = value


def _restore(place: Place, held: Any, copy: Any) -> None:
    _put(place, held)
    if type(held) in (list, dict) and not _same(held, copy):
        _put(place, copy, within=True)


def _copied(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict) else value


def _same(one: Any, other: Any) -> bool:
    if type(one) is dict:
        return [*one] == [*other] and _same([*one.values()], [*other.values()])
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _among(place: Place, places: Sequence[Place]) -> bool:
    return any(place[0] is layer and place[1] == name for layer, name in places)


def _users(layer: Any) -> bool:
    return type(layer).__module__.partition(".")[0] != _OURS


def _told(value: Any) -> bool:
    """Whether a value is made of tensors, numbers and texts alone."""
    if type(value) in (list, tuple):
        return all(_told(one) for one in value)
    if type(value) is dict:
        return all(_told(one) for one in value.values())
    return isinstance(value, (Variable, VarBase, *_PLAIN))


def _plain(value: Any) -> Any:
    """What of a value only another program can have otherwise."""
    if type(value) in (list, tuple):
        return type(value), tuple([_plain(one) for one in value])
    if type(value) is dict:
        return dict, tuple([(name, _plain(one)) for name, one in value.items()])
    return (type(value), value) if isinstance(value, _PLAIN) else type(value)
