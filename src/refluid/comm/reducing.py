"""Tensors of several members reduced to one, in the order of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

REDUCE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": Tensor.add_,
    "prod": Tensor.mul_,
    "max": lambda total, other: torch.maximum(total, other, out=total),
    "min": lambda total, other: torch.minimum(total, other, out=total),
}


def reduced(copies: Sequence[Tensor], reduction: str, device: torch.device) -> Tensor:
    """A new tensor on that device."""
    total = copies[0].to(device, copy=True)
    for other in copies[1:]:
        REDUCE[reduction](total, other.to(device))
    return total


def reduce_all(copies: Sequence[Tensor], reduction: str, near: Tensor) -> None:
    """Reduces copies in place; where they are on several devices, on that of `near`."""
    spread = any(copy.device != copies[0].device for copy in copies)
    total = copies[0].to(near.device, copy=True) if spread else copies[0]
    for other in copies[1:]:
        REDUCE[reduction](total, other.to(total.device))
    for copy in copies:
        if copy is not total:
            copy.copy_(total)


def part(tensor: Tensor, rank: int, size: int) -> Tensor:
    """The part of a tensor's memory that member `rank` reduces."""
    elements = tensor if tensor.dim() == 1 else flat(tensor)
    step = -(-elements.numel() // size)
    return elements[rank * step : (rank + 1) * step]


def flat(tensor: Tensor) -> Tensor:
    """All elements in the order in which they lie in memory."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    return torch.as_strided(tensor, (tensor.numel(),), (1,))


def by_type(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors of each element type."""
    found: dict[torch.dtype, list[Tensor]] = {}
    for one in tensors:
        found.setdefault(one.dtype, []).append(one)
    return list(found.values())


def as_one(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one type, one tensor behind the other, on the CPU."""
    parts = [one.detach().cpu().contiguous().view(-1) for one in tensors]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def take_apart(whole: Tensor, tensors: Sequence[Tensor]) -> None:
    """Overwrites the tensors with what `as_one` would make the whole of."""
    parts = torch.split(whole, [one.numel() for one in tensors])
    for one, part in zip(tensors, parts, strict=True):
        one.copy_(part.view(one.shape))
