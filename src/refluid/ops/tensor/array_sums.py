"""The sum of tensor arrays: gradients of an array that is used several times."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from refluid.core.lod_tensor import LoDTensor, LoDTensorArray


def sum_of_arrays(arrays: list[LoDTensorArray]) -> LoDTensorArray:
    """Element by element; an element that one of them lacks counts as zero."""
    total = LoDTensorArray()
    for items in zip_longest(*arrays):
        found = [item for item in items if _holds_data(item)]
        total.append(_sum(found) if found else LoDTensor())
    return total


def _holds_data(item: Any) -> bool:
    return item is not None and (not isinstance(item, LoDTensor) or item._is_initialized())


def _sum(items: list[Any]) -> Any:
    tensors = [item.tensor if isinstance(item, LoDTensor) else item for item in items]
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result += tensor
    lods = [item.lod() for item in items if isinstance(item, LoDTensor) and item.lod()]
    return LoDTensor(result, lods[0]) if lods else result
