"""Who is told when a backward pass has ended: all gradients are there."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakMethod

_told: list[WeakMethod[Callable[[], None]]] = []


def tell(ended: Callable[[], None]) -> None:
    """Has a method called after each backward pass, as long as its object is there."""
    _told[:] = [one for one in _told if one() is not None]
    _told.append(WeakMethod(ended))


def backward_ended() -> None:
    """To be called after each backward pass."""
    for one in tuple(_told):
        ended = one()
        if ended is not None:
            ended()
