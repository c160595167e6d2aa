"""Tensor arrays: `write_to_array`, `read_from_array` and `lod_array_length` in a plan."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.offsets import Levels


def write_item(array: Any, position: Tensor | int, value: Tensor, levels: Levels) -> LoDTensorArray:
    """The array with `value` at `position`; None is an array that doesn't exist yet.

    Places before it that nobody wrote hold empty tensors.
    """
    index = int(position)
    items = LoDTensorArray() if array is None else array
    while len(items) <= index:
        items.append(LoDTensor())
    items[index] = LoDTensor(value, levels) if levels else value
    return items


def read_item(array: Any, position: Tensor | int, like: Tensor | None) -> tuple[Tensor, Levels]:
    """The element at `position` and its LoD; zeros shaped as `like` where nobody wrote one."""
    index = int(position)
    item = array[index] if array is not None and index < len(array) else None
    if isinstance(item, LoDTensor):
        levels = item.levels
        item = item.tensor if item._is_initialized() else None
        if item is not None:
            return item, levels
    if item is not None:
        return item, ()
    if like is not None:
        return torch.zeros_like(like), ()
    length = 0 if array is None else len(array)
    raise EnforceNotMet(f"element {index} of the array was not written: it has {length} elements")


def array_length(array: Any) -> Tensor:
    """The number of elements, int64 of shape [1]."""
    return torch.tensor([0 if array is None else len(array)])
