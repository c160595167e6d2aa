"""Replicas in several processes: those of one process are a row, those of one number a column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm.communicator import DONE, Communicator, Exchanged, Work, share_of
from refluid.comm.reducing import part
from refluid.core.errors import EnforceNotMet


class ReplicaGrid:
    """One replica's end. row: the replicas of its process; column: those of its number in all.

    All processes have as many replicas. Members are numbered row by row.
    """

    background = False

    def __init__(self, row: Communicator, column: Communicator) -> None:
        self._row, self._column = row, column
        self.size = row.size * column.size
        self.rank = column.rank * row.size + row.rank
        self.node, self.timeout = column.node, column.timeout
        self.local_size = row.size * column.local_size
        self.local_rank = column.local_rank * row.size + row.rank

    @property
    def row(self) -> Communicator:
        """The replicas of this process."""
        return self._row

    def agree(self, what: Sequence[str]) -> None:
        self._row.agree(what)
        self._column.agree(what)

    def barrier(self) -> None:
        self._row.barrier()
        self._column.barrier()
        self._row.barrier()

    def all_reduce(
        self,
        tensors: Sequence[Tensor],
        reduction: str = "sum",
        *,
        wait: bool = True,  # noqa: ARG002
    ) -> Work:
        row, column = self._row, self._column
        row.all_reduce(tensors, reduction)
        # Each of the row exchanges its part with the other processes, and tells its neighbours.
        column.all_reduce([part(one, row.rank, row.size) for one in tensors], reduction)
        for owner in range(row.size):
            row.broadcast([part(one, owner, row.size) for one in tensors], owner)
        return DONE

    def all_gather(self, value: Exchanged) -> list[Exchanged]:
        rows = [self._row.all_gather(one) for one in self._column.all_gather(value)]
        return [one for row in rows for one in row]

    def all_to_all(self, parts: Sequence[Tensor]) -> list[Tensor]:
        width, height = self._row.size, self._column.size
        if len(parts) != self.size:
            raise EnforceNotMet(f"each of {self.size} members needs a part, not {len(parts)}")
        # First to the replica of that number in this process, then to the other process.
        held = [self._row.all_to_all(parts[at * width : (at + 1) * width]) for at in range(height)]
        found = [self._column.all_to_all(list(one)) for one in zip(*held, strict=True)]
        return [found[number][at] for at in range(height) for number in range(width)]

    def reduce_scatter(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        own = share_of(tensor, self.rank, self.size)
        whole = tensor.clone(memory_format=torch.contiguous_format)
        self.all_reduce([whole], reduction)
        return whole[own].clone()

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        process, number = divmod(root, self._row.size)
        if self._row.rank == number:
            self._column.broadcast(tensors, process)
        self._row.broadcast(tensors, number)

    def split(self, color: int | None, key: int = 0) -> Communicator | None:  # noqa: ARG002
        raise EnforceNotMet(
            "replicas of several processes with several places each can't be split into groups: "
            "use one place for each process"
        )

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> None:
        process, number = divmod(to, self._row.size)
        self._way(process, number).send(tensors, self._end(process, number), tag)

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> None:
        process, number = divmod(source, self._row.size)
        self._way(process, number).recv(tensors, self._end(process, number), tag)

    def take(self, count: int, source: int, tag: int = 0) -> list[Tensor]:
        process, number = divmod(source, self._row.size)
        return self._way(process, number).take(count, self._end(process, number), tag)

    def _way(self, process: int, number: int) -> Communicator:
        """The row or the column in which that member is."""
        if process == self._column.rank:
            return self._row
        if number == self._row.rank and process in range(self._column.size):
            return self._column
        raise EnforceNotMet(
            f"member {self.rank} can't send to or receive from replica {number} of trainer "
            f"{process}: use one place for each process"
        )

    def _end(self, process: int, number: int) -> int:
        return number if process == self._column.rank else process

    def close(self) -> None:
        self._row.close()
        self._column.close()
