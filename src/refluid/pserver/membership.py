"""Servers that come and go: what is where afterwards. Only the share of one server moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.pserver.layout import DenseParameter, DenseSlice, JobLayout


def with_server(layout: JobLayout, address: str) -> JobLayout:
    """One more server at an address, with the next number.

    EnforceNotMet where one of the servers is there already.
    """
    if address in layout.servers:
        raise EnforceNotMet(f"{address} is server {layout.servers.index(address)} already")
    number = len(layout.servers)
    moved, room = {}, sum(_loads(layout).values()) / (len(layout.numbers) + 1)
    loads = _loads(layout)
    for one, part in sorted(_parts(layout), key=lambda known: -_size(*known)):
        fullest = max(loads.values())
        if _size(one, part) <= room and loads[part.server] == fullest:
            moved[part.name] = number
            room -= _size(one, part)
            loads[part.server] -= _size(one, part)
    return _changed(layout, (*layout.servers, address), moved)


def without_server(layout: JobLayout, number: int) -> JobLayout:
    """A server less, whose slices go to those that have least. EnforceNotMet for the last one."""
    require(layout, number)
    loads = _loads(layout)
    del loads[number]
    if not loads:
        raise EnforceNotMet(f"server {number} is the last one: end the job instead")
    moved = {}
    held = [known for known in _parts(layout) if known[1].server == number]
    for one, part in sorted(held, key=lambda known: -_size(*known)):
        moved[part.name] = min(loads, key=lambda other: loads[other])
        loads[moved[part.name]] += _size(one, part)
    return _changed(layout, _put(layout, number, ""), moved)


def at_address(layout: JobLayout, number: int, address: str) -> JobLayout:
    """The same, with a server elsewhere. EnforceNotMet where another one is there."""
    require(layout, number)
    if address in layout.servers and layout.servers[number] != address:
        raise EnforceNotMet(f"{address} is server {layout.servers.index(address)} already")
    return _changed(layout, _put(layout, number, address), {})


def wanted_layout(layout: JobLayout, asked: Mapping[str, Any]) -> JobLayout:
    """The layout after what was asked for: a server added, removed, or elsewhere."""
    try:
        if "add" in asked:
            return with_server(layout, str(asked["add"]))
        if "remove" in asked:
            return without_server(layout, int(asked["remove"]))
        return at_address(layout, int(asked["move"]), str(asked["to"]))
    except (KeyError, TypeError, ValueError) as error:
        raise EnforceNotMet(f"servers are added, removed or moved: {error}") from error


def decider(former: JobLayout, target: JobLayout) -> int:
    """The server that decides about a change: the first that is there before and after."""
    return min(set(former.numbers) & set(target.numbers))


def require(layout: JobLayout, number: int) -> None:
    """EnforceNotMet where there is no server of that number."""
    if number not in layout.numbers:
        known = ", ".join(f"{one} ({layout.servers[one]})" for one in layout.numbers)
        raise EnforceNotMet(f"there is no server {number}, but {known}")


def _put(layout: JobLayout, number: int, address: str) -> tuple[str, ...]:
    return tuple(address if one == number else own for one, own in enumerate(layout.servers))


def _changed(layout: JobLayout, servers: tuple[str, ...], moved: Mapping[str, int]) -> JobLayout:
    """The next epoch, with some slices on other servers."""
    dense = tuple(
        replace(
            one,
            slices=tuple(
                replace(part, server=moved.get(part.name, part.server)) for part in one.slices
            ),
        )
        for one in layout.dense
    )
    founders = layout.founders or len(layout.servers)
    return replace(layout, servers=servers, dense=dense, epoch=layout.epoch + 1, founders=founders)


def _parts(layout: JobLayout) -> list[tuple[DenseParameter, DenseSlice]]:
    return [(one, part) for one in layout.dense for part in one.slices]


def _size(param: DenseParameter, part: DenseSlice) -> int:
    """Numbers in a slice."""
    return (part.end - part.begin) * math.prod(param.shape[1:])


def _loads(layout: JobLayout) -> dict[int, int]:
    """Numbers in the slices of each server."""
    found = dict.fromkeys(layout.numbers, 0)
    for one, part in _parts(layout):
        found[part.server] += _size(one, part)
    return found
