"""x[::-1, None] -> x.flip(0)[::1, None], as torch takes no steps backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def turned(value: Tensor, index: Any) -> tuple[Tensor, Any, list[int]]:
    """The value and an index of it that give the same; the dimensions that were turned round."""
    parts = index if isinstance(index, tuple) else (index,)
    dims: list[int] = []
    if not any(map(_goes_back, parts)):
        return value, index, dims
    made = []
    for part, dim in _places(parts, value.dim()):
        if _goes_back(part) and dim < value.dim():
            dims.append(dim)
            part = _from_the_end(part, value.shape[dim])
        made.append(part)
    return value.flip(dims), tuple(made), dims


def put(value: Tensor, index: Any, given: Any) -> None:
    """value[index] = given. ValueError where what is given doesn't fit there."""
    there, index, dims = turned(value, index)
    try:
        there[index] = given
    except RuntimeError as error:
        shapes = list(given.shape) if isinstance(given, Tensor) else [], list(there[index].shape)
        raise ValueError(
            f"what is given has shape {shapes[0]} and can't be broadcast to {shapes[1]}, which is "
            "what the index takes"
        ) from error
    if dims:
        value.copy_(there.flip(dims))


def _goes_back(part: Any) -> bool:
    return isinstance(part, slice) and part.step is not None and part.step < 0


def _places(parts: tuple[Any, ...], rank: int) -> Iterator[tuple[Any, int]]:
    """Each part with the dimension that it begins at."""
    dim = 0
    left = rank - sum(map(_takes, parts))
    for part in parts:
        yield part, dim
        dim += max(left, 0) if part is Ellipsis else _takes(part)


def _takes(part: Any) -> int:
    """How many dimensions a part of an index is about."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype is torch.bool else 1


def _from_the_end(part: slice, size: int) -> slice:
    """The same elements of what is turned round."""
    taken = range(size)[part]
    first = size - 1 - taken.start
    return slice(first, first - taken.step * len(taken), -taken.step) if taken else slice(0, 0)
