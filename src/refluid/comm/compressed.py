"""`Compressed`: gradients go over the wire in 16 bits, and are summed in 32."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm.around import Around
from refluid.comm.communicator import DONE, Beside, Communicator, Work
from refluid.comm.reducing import as_one, take_apart

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class Compressed(Around):
    """Sums of float32 tensors are exchanged as `half`; all else is as of `inner`.

    Each member sums its part in float32, in the order of ranks, and sends the sum as `half` too:
    all get the same bits. What is larger than a half can be becomes infinite.
    """

    def __init__(self, inner: Communicator, half: torch.dtype) -> None:
        super().__init__(inner)
        self._half = half
        self._apart = inner.split(0)
        self._beside: Beside | None = None

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        found = self._inner.split(color, key)
        return None if found is None else Compressed(found, self._half)

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        if wait:
            self._all_reduce(self._inner, tensors, reduction)
            return DONE
        self._beside = self._beside or Beside(f"refluid-exchange-{self.rank}")
        return self._beside.start(self._all_reduce, self._apart, tensors, reduction)

    def _all_reduce(self, comm: Communicator, tensors: Sequence[Tensor], reduction: str) -> None:
        wide = [one for one in tensors if one.dtype is torch.float32]
        if reduction != "sum" or not wide:
            comm.all_reduce(tensors, reduction)
            return
        rest = [one for one in tensors if one.dtype is not torch.float32]
        if rest:
            comm.all_reduce(rest)
        whole = as_one(wide).to(self._half)
        mine = summed(comm.all_to_all(whole.tensor_split(comm.size))).to(self._half)
        parts = [one for one in comm.all_gather(mine) if isinstance(one, Tensor)]
        take_apart(torch.cat(parts).float(), wide)

    def close(self) -> None:
        if self._beside is not None:
            self._beside.close()
        for one in (self._apart, self._inner):
            if one is not None:
                one.close()


def summed(copies: Sequence[Tensor]) -> Tensor:
    """The sum in float32, in the order of ranks."""
    total = copies[0].float()
    for other in copies[1:]:
        total.add_(other)
    return total
