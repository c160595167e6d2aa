"""`Compressed`: gradients go over the wire in 16 bits, and are summed in 32."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm.around import Around
from refluid.comm.communicator import Communicator, Work
from refluid.comm.reducing import WIDE_SUM, as_one, take_apart

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class Compressed(Around):
    """Sums of float32 tensors are exchanged as `half`; all else is as of `inner`.

    Each member sums its part in float32, in the order of ranks, and sends the sum as `half` too:
    all get the same bits. What is larger than a half can be becomes infinite.
    """

    def __init__(self, inner: Communicator, half: torch.dtype) -> None:
        super().__init__(inner)
        self._half = half

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        found = self._inner.split(color, key)
        return None if found is None else Compressed(found, self._half)

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        wide = [one for one in tensors if one.dtype is torch.float32]
        if reduction != "sum" or not wide:
            return self._inner.all_reduce(tensors, reduction, wait=wait)
        rest = [one for one in tensors if one.dtype is not torch.float32]
        works = [self._inner.all_reduce(rest, wait=wait)] if rest else []
        half = as_one(wide).to(self._half)
        works.append(self._inner.all_reduce([half], WIDE_SUM, wait=wait))
        found = _Widened(works, half, wide)
        if wait:
            found.wait()
        return found


class _Widened:
    """Exchanges, of which that of halves is over once the tensors have what it gave."""

    def __init__(self, works: Sequence[Work], half: Tensor, wide: Sequence[Tensor]) -> None:
        self._works, self._half, self._wide = works, half, wide

    def wait(self) -> None:
        for one in self._works:
            one.wait()
        if self._wide:
            take_apart(self._half.float(), self._wide)
        self._wide = ()

    def done(self) -> bool:
        return all(one.done() for one in self._works)
