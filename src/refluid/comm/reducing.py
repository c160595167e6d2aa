"""Tensors of several members reduced to one, in the order of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

# Tensors of 16 bits, whose sum is taken in float32 and rounded once.
WIDE_SUM = "sum in 32 bits"
_COMBINE: dict[str, Callable[..., Tensor]] = {
    "sum": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}


def reduce_at(rank: int, copies: Sequence[Tensor], reduction: str) -> None:
    """copies[rank] becomes the reduction of all, in their order; others may be overwritten."""
    own = copies[rank]
    if reduction == WIDE_SUM:
        own.copy_(summed(copies))
        return
    combine = _COMBINE[reduction]
    if rank:
        for other in copies[1:rank]:
            combine(copies[0], other, out=copies[0])
        combine(copies[0], own, out=own)
    for other in copies[rank + 1 :]:
        combine(own, other, out=own)


def summed(copies: Sequence[Tensor]) -> Tensor:
    """The sum in float32, in the order of ranks."""
    total = copies[0].to(torch.float32, copy=True)
    for other in copies[1:]:
        total.add_(other)
    return total


def reduced(copies: Sequence[Tensor], reduction: str, device: torch.device) -> Tensor:
    """A new tensor on that device."""
    total = copies[0].to(device, copy=True)
    reduce_at(0, [total, *(one.to(device) for one in copies[1:])], reduction)
    return total


def reduce_all(copies: Sequence[Tensor], reduction: str, near: Tensor) -> None:
    """Reduces copies in place; where they are on several devices, on that of `near`."""
    spread = any(copy.device != copies[0].device for copy in copies)
    total = copies[0].to(near.device, copy=True) if spread else copies[0]
    reduce_at(0, [total, *(one.to(total.device) for one in copies[1:])], reduction)
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


def side_by_side(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies, those of one type and device one behind the other: `as_one` needn't copy them."""
    kinds: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for number, one in enumerate(tensors):
        kinds.setdefault((one.dtype, one.device), []).append(number)
    found = list(tensors)
    for (kind, device), numbers in kinds.items():
        sizes = [tensors[number].numel() for number in numbers]
        whole = torch.empty(sum(sizes), dtype=kind, device=device)
        for number, own in zip(numbers, torch.split(whole, sizes), strict=True):
            found[number] = own.view(tensors[number].shape).copy_(tensors[number])
    return found


def as_one(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one type, one tensor behind the other, on the CPU.

    The tensors' own memory where that is how they lie, else a copy.
    """
    whole = in_one_memory(tensors) if tensors[0].device.type == "cpu" else None
    if whole is not None:
        return whole
    parts = [one.detach().cpu().contiguous().view(-1) for one in tensors]
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def in_one_memory(tensors: Sequence[Tensor]) -> Tensor | None:
    """The memory that tensors of one type are, where one lies behind the other."""
    held = [one for one in tensors if one.numel()] or tensors[:1]
    if not all(one.is_contiguous() for one in held):
        return None
    memory = held[0].untyped_storage().data_ptr()
    ends = accumulate((one.nbytes for one in held), initial=held[0].data_ptr())
    for one, begin in zip(held, ends, strict=False):
        if one.data_ptr() != begin or one.untyped_storage().data_ptr() != memory:
            return None
    return torch.as_strided(held[0].detach(), (sum(one.numel() for one in held),), (1,))


def take_apart(whole: Tensor, tensors: Sequence[Tensor]) -> None:
    """Overwrites the tensors with what `as_one` would make the whole of."""
    parts = torch.split(whole, [one.numel() for one in tensors])
    for one, own in zip(tensors, parts, strict=True):
        if own.numel() and one.data_ptr() != own.data_ptr():
            one.copy_(own.view(one.shape))
