"""Values loaded into layers that have no parameters before their first call."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from typing import Any

_AWAITED = "_refluid_awaited"


def put_by(layer: Any, values: Mapping[str, Any], used: Container[str], plain: Any) -> None:
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
    for name, value in layer.__dict__.pop(_AWAITED, {}).items():
        if layer._parameters.get(name) is None:
            raise RuntimeError(
                f"the loaded state has {name!r} for {layer.full_name()}, which made only "
                f"{sorted(layer._parameters)} at its first call"
            )
        layer._parameters[name].set_value(value)
