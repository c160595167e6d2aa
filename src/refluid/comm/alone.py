"""A group of one."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.comm.communicator import DONE, Communicator, Exchanged, Work, share_of
from refluid.core.errors import EnforceNotMet


class _Alone:
    rank = node = local_rank = 0
    size = local_size = 1
    timeout = None
    background = False

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        return None if color is None else self

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        raise EnforceNotMet("a group of one has nobody to send to")

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        raise EnforceNotMet("a group of one has nobody to receive from")

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        raise EnforceNotMet("a group of one has nobody to receive from")

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        return DONE

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        return [value]

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return list(parts)

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        return tensor[share_of(tensor, 0, 1)].clone()

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        pass

    def agree(self, what: Sequence[str]) -> None:
        pass

    def barrier(self) -> None:
        pass

    def close(self) -> None:
        pass


ALONE: Communicator = _Alone()
