"""Giving the user a fetched tensor: as it is where nobody else can reach its memory."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import torch


def own_value(value: Any) -> Any:
    """The tensor, or a copy where the scope, the user or another result holds it or its memory.

    Plans call this with a local variable, which is what `SOLE` counts.
    """
    if not isinstance(value, torch.Tensor):
        return value
    if getrefcount(value) == SOLE and value.layout is torch.strided and _holders(value) == 1:
        return value
    return value.clone()


def _holders(tensor: torch.Tensor) -> int:
    """How many tensors lie in its storage."""
    storage = tensor.untyped_storage()  # itself a holder
    return int(torch._C._storage_Use_Count(storage._cdata)) - 1


def _sole() -> int:
    """What `own_value` counts for an object that only its caller's variable holds."""

    def count(value: Any) -> int:
        return getrefcount(value)

    thing = object()
    return count(thing)


SOLE = _sole()
