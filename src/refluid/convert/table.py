"""The table of converters: what writes the PyTorch of one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from refluid.core.errors import EnforceNotMet

if TYPE_CHECKING:
    from refluid.convert.site import Site

Converter = Callable[["Site"], None]
_TABLE: dict[str, Converter] = {}


class NoCounterpart(EnforceNotMet):
    """An operator, or what it is asked to do, that has no PyTorch here."""


def converts(*kinds: str) -> Callable[[Converter], Converter]:
    """Has the decorated function write operators of these types."""

    def add(function: Converter) -> Converter:
        for kind in kinds:
            assert kind not in _TABLE, f"two converters of {kind}"
            _TABLE[kind] = function
        return function

    return add


def converter_of(kind: str) -> Converter | None:
    """What writes operators of that type; None where nothing does."""
    return _TABLE.get(kind)


def converted_kinds() -> list[str]:
    """All operator types that can be converted, once `rules.load()` was called."""
    return sorted(_TABLE)
