"""Giving the user a fetched tensor: as it is where nobody else can reach its memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from sys import getrefcount
from typing import Any

import torch

from refluid.kernels.holders import lies_alone

# Ways to hold a tensor `v`, or its memory, besides the variable.
_HELD = """
    w = v
    kept.append(v)
    kept.append({"v": v})
    kept.append(v[1:])
    kept.append(v.detach())
    kept.append(v.numpy())
"""
_HELD_BASE = "kept.append(v._base)"
_SITUATION = """
def situation():
    v = make(3){}
    {}
    return own(v, yes).data_ptr() == v.data_ptr()
"""


@cache
def counts_tell() -> bool:
    """Whether counts of references tell who holds a tensor: tried once, in code as plans are.

    A Python that counts otherwise, or a torch that does, must not give users memory that the next
    step writes to.
    """
    ways = [held.strip() for held in _HELD.strip().splitlines()]
    views = [_is_given(held, ".view(3, 1)") for held in [*ways, _HELD_BASE]]
    return not any(views) and not any(map(_is_given, ways))


def _is_given(held: str, seen: str = "") -> bool:
    names: dict[str, Any] = {"make": torch.ones, "kept": [], "own": own_value, "yes": lambda: True}
    exec(_SITUATION.format(seen, held), names)
    return bool(names["situation"]())


def own_value(value: Any, trusted: Callable[[], bool] = counts_tell) -> Any:
    """The tensor, or a copy where the scope, the user or another result holds it or its memory.

    Plans call this with a local variable, which is what `SOLE` counts. trusted: whether counts
    of references tell who holds an object; where they don't, everything is copied.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if getrefcount(value) != SOLE or value.layout is not torch.strided or not lies_alone(value):
        return value.clone()
    return value if trusted() else value.clone()


def _sole() -> int:
    """What `own_value` counts for an object that only its caller's variable holds."""

    def count(value: Any, _trusted: Any = None) -> int:
        return getrefcount(value)

    thing = object()
    return count(thing)


SOLE = _sole()
