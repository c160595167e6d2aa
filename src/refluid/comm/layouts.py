"""A tensor as two messages: its type and sizes, of one length for all, then its memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, as_dtype, to_torch
from refluid.core.errors import EnforceNotMet

# The most dimensions that a tensor may have.
_DIMS = 14


def bytes_of(tensor: Tensor) -> Tensor:
    """A contiguous tensor's memory."""
    flat = tensor.view(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def head_of(tensor: Tensor) -> Tensor:
    """Type and sizes of a tensor, int64."""
    numbers = [int(as_dtype(tensor.dtype)), tensor.dim(), *tensor.shape]
    return torch.tensor(numbers + [0] * (_DIMS + 2 - len(numbers)))


def empty_head() -> Tensor:
    """Where type and sizes are received."""
    return torch.empty(_DIMS + 2, dtype=torch.int64)


def tensor_for(head: Tensor) -> Tensor:
    """A tensor of that type and of those sizes, to be overwritten."""
    kind, dims, *sizes = head.tolist()
    return torch.empty(sizes[:dims], dtype=to_torch(VarType(kind)))


def fill(tensors: Sequence[Tensor], found: Sequence[Tensor], sender: str) -> None:
    """Overwrites tensors with what came; EnforceNotMet where that is of other shapes or types."""
    if [(one.shape, one.dtype) for one in found] != [(one.shape, one.dtype) for one in tensors]:
        shapes = [tuple(one.shape) for one in found]
        raise EnforceNotMet(f"{sender} sent other shapes or types: {shapes}")
    for mine, theirs in zip(tensors, found, strict=True):
        mine.copy_(theirs)
