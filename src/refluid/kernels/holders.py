"""Which memory a tensor lies in and how, and how many tensors lie there."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from refluid.kernels.parts import part

_count = part("torch._C._storage_Use_Count", None)
_uses = part("torch.Tensor._use_count", None)
_has_number = part("torch.UntypedStorage._cdata", None) is not None
_reference: Any = StorageWeakRef


def _number(storage: Any) -> int:
    number: int = storage._cdata
    return number


def _weak_number(storage: torch.UntypedStorage) -> int:
    return int(_reference(storage).cdata)


_number_of = _number if _has_number else _weak_number


def memory_of(tensor: Tensor) -> int:
    """The number of a tensor's memory, which is its own as long as it is held."""
    return _number_of(tensor.untyped_storage())


def holders(tensor: Tensor) -> int | None:
    """How many tensors lie in its memory; None where torch doesn't tell."""
    storage: Any = tensor.untyped_storage()  # itself a holder
    if _count is None:
        return None
    found: int = _count(storage._cdata if _has_number else _weak_number(storage))
    return found - 1


def lies_alone(tensor: Tensor) -> bool:
    """Whether nothing else lies in its memory but what it is a view of, all of it, which nothing
    else holds: results are often handed on in another shape."""
    found = holders(tensor)
    if found != 2 or _uses is None:
        return found == 1
    base = tensor._base
    if base is None or base.numel() != tensor.numel():
        return False
    return (_uses(base), getrefcount(base)) == _IDLE


def _idle() -> tuple[int, int]:
    """How often what a view was made of is counted, where nothing else holds it."""
    view = torch.ones(2).view(2)
    base = view._base
    return (_uses(base) if _uses else 0, getrefcount(base))


_IDLE = _idle()


class Storage:
    """The memory of a tensor, without keeping it. `key` is its own as long as this exists."""

    __slots__ = ("_weak", "key")

    def __init__(self, tensor: Tensor) -> None:
        self._weak: Any = _reference(tensor.untyped_storage())
        self.key: int = self._weak.cdata

    def expired(self) -> bool:
        """Whether it was freed."""
        return bool(self._weak.expired())


def storage_of(value: Any) -> Storage | None:
    """The memory of a dense tensor, without keeping it; None for anything else."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_meta:
        return None
    return Storage(value)


def laid_out_alike(one: Tensor, other: Tensor) -> bool:
    """Whether equal elements lie at equal places; strides of dimensions of one element are idle."""
    return laid_out_by(one, other.stride())


def laid_out_by(tensor: Tensor, strides: Sequence[int]) -> bool:
    """Whether its elements lie as these strides say, in the same sense."""
    return all(
        size == 1 or stride == its
        for size, stride, its in zip(tensor.shape, tensor.stride(), strides, strict=True)
    )
