"""`Around`: a communicator that does what another one does, for those that change a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.comm.communicator import Communicator, Exchanged, Work


class Around:
    """Every method is that of `inner`."""

    def __init__(self, inner: Communicator) -> None:
        self._inner = inner
        self.rank, self.size, self.node = inner.rank, inner.size, inner.node
        self.local_rank, self.local_size = inner.local_rank, inner.local_size
        self.timeout, self.background = inner.timeout, inner.background

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        return self._inner.split(color, key)

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        self._inner.send(tensors, to, tag)

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        self._inner.recv(tensors, source, tag)

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        return self._inner.take(count, source, tag)

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        return self._inner.all_reduce(tensors, reduction, wait=wait)

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        return self._inner.all_gather(value)

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        return self._inner.all_to_all(parts)

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        return self._inner.reduce_scatter(tensor, reduction)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        self._inner.broadcast(tensors, root)

    def agree(self, what: Sequence[str]) -> None:
        self._inner.agree(what)

    def barrier(self) -> None:
        self._inner.barrier()

    def close(self) -> None:
        self._inner.close()
