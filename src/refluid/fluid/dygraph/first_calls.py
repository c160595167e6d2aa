"""Values loaded into layers that have no parameters before their first call."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from typing import Any

_AWAITED = "_refluid_awaited"


class ByName(dict[str, Any]):
    """Values by the names of parameters, not by the attributes of layers."""


def put_by(
    layer: Any, values: Mapping[str, Any], used: Container[str], plain: Any, *, by_name: bool
) -> None:
    """Keeps unused values whose layers make parameters at their first call; warns of others.

    plain: the `_build_once` of layers that make none then.
    """
    unused = [name for name in values if name not in used and "@@" not in name]
    if not unused:
        return
    places = {
        place: one
        for place, one in layer.named_sublayers(include_self=True)
        if not one._built and type(one)._build_once is not plain
    }
    if by_name and places:
        for one in places.values():
            one.__dict__[_AWAITED] = ByName((name, values[name]) for name in unused)
        return
    others = []
    for name in unused:
        place, _, own = name.rpartition(".")
        if place in places:
            places[place].__dict__.setdefault(_AWAITED, {})[own] = values[name]
        else:
            others.append(name)
    if others:
        warnings.warn(f"Variables [ {others} ] in state dict are not used", stacklevel=3)


def take_up(layer: Any) -> None:
    """Sets the parameters that the layer has made to what was kept for them."""
    awaited = layer.__dict__.pop(_AWAITED, None)
    if awaited is None:
        return
    made = {name: one for name, one in layer._parameters.items() if one is not None}
    if isinstance(awaited, ByName):
        made = {one.name: one for one in made.values()}
        awaited = {name: awaited[name] for name in made if name in awaited}
    for name in made.keys() ^ awaited.keys():
        raise RuntimeError(
            f"the first call of {layer.full_name()} made parameters {sorted(made)}, and the "
            f"state loaded before has {sorted(awaited)}: they differ in {name!r}"
        )
    for name, value in awaited.items():
        made[name].set_value(value)
