"""Values loaded into layers that have no parameters before their first call."""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_AWAITED = "_refluid_awaited"


class ByName(dict[str, Any]):
    """Values by the names of parameters, not by the attributes of layers."""


@dataclass
class _Awaited:
    """What was loaded into a layer before its first call.

    values: by attributes from the layer on, or by names of parameters. before: the parameters that
    it had then. plain: the `_build_once` of layers that make nothing.
    """

    values: dict[str, Any]
    before: frozenset[str]
    plain: Any


def put_by(
    layer: Any, values: Mapping[str, Any], used: Container[str], plain: Any, *, by_name: bool
) -> None:
    """Keeps unused values whose layers make parameters at their first call; warns of others.

    plain: the `_build_once` of layers that make none then.
    """
    unused = {name: one for name, one in values.items() if name not in used and "@@" not in name}
    others = _keep(layer, unused, plain, by_name) if unused else []
    if others:
        warnings.warn(f"Variables [ {others} ] in state dict are not used", stacklevel=3)


def _keep(layer: Any, values: Mapping[str, Any], plain: Any, by_name: bool) -> list[str]:
    """Keeps values for the layers that are to make them; the names of those without one."""
    places = {
        place: one
        for place, one in layer.named_sublayers(include_self=True)
        if not one._built and type(one)._build_once is not plain
    }
    if by_name and places:
        for one in places.values():
            one.__dict__[_AWAITED] = _Awaited(ByName(values), frozenset(one.state_dict()), plain)
        return []
    others = []
    for name, value in values.items():
        place = next((one for one in _outwards(name) if one in places), None)
        if place is None:
            others.append(name)
            continue
        one = places[place]
        empty = _Awaited({}, frozenset(one.state_dict()), plain)
        kept = one.__dict__.setdefault(_AWAITED, empty)
        kept.values[name[len(place) + 1 :] if place else name] = value
    return others


def _outwards(name: str) -> Iterator[str]:
    """Where the value may belong: the innermost layer first."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def take_up(layer: Any) -> None:
    """Sets the parameters that the layer has made, and those of layers that it has made, to what
    was kept for them; hands on what these make later."""
    awaited = layer.__dict__.pop(_AWAITED, None)
    if awaited is None:
        return
    state, by_name = layer.state_dict(), isinstance(awaited.values, ByName)
    made = {name: one for name, one in state.items() if name not in awaited.before}
    if by_name:
        made = {one.name: one for one in made.values()}
    later = {name: one for name, one in awaited.values.items() if name not in made}
    left = _keep(layer, later, awaited.plain, by_name) if later else []
    given = {name: one for name, one in awaited.values.items() if name in made}
    wrong = sorted(made.keys() - given.keys()) + ([] if by_name else left)
    if wrong:
        raise RuntimeError(
            f"the first call of {layer.full_name()} made parameters {sorted(made)}, and the "
            f"state loaded before has {sorted([*given, *left])}: they differ in {wrong[0]!r}"
        )
    for name, value in given.items():
        made[name].set_value(value)
