"""What one process sends to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from refluid.comm import Communicator
from refluid.paddle.distributed.ends import Task, member, own_end, value_of
from refluid.paddle.distributed.groups import Group

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


@dataclass(eq=False)
class _Receiving:
    """A value that is waited for: those from one process come in the order they were asked for."""

    comm: Communicator
    source: int
    tensor: Any
    over: bool = False
    error: Exception | None = None

    def wait(self) -> None:
        while not self.over:
            queue = _asked[self.comm, self.source]
            queue.popleft()._receive()
            if not queue:
                del _asked[self.comm, self.source]
        if self.error is not None:
            raise self.error

    def done(self) -> bool:
        return self.over

    def _receive(self) -> None:
        """What goes wrong is told to who waits for this value, not to another."""
        self.over = True
        try:
            with torch.no_grad():
                self.comm.recv([value_of(self.tensor)], self.source)
        except Exception as error:
            self.error = error


_asked: dict[tuple[Communicator, int], deque[_Receiving]] = {}


class _Awaited(Task):
    """Asking whether a value came waits for it: nothing goes on that would tell otherwise."""

    def is_completed(self) -> bool:
        return self.wait()


def send(
    tensor: Any, dst: int = 0, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Sends `tensor` to the job's process `dst`, which must call `recv`. None outside the group.

    It may be overwritten when this returns, whether the other has received it or not.
    """
    comm = own_end(group)
    if comm is None:
        return None
    comm.send([value_of(tensor)], member(group, dst))
    return Task()


def isend(tensor: Any, dst: int, group: Group | None = None) -> Task | None:
    """As `send`, which needn't wait for the other process."""
    return send(tensor, dst, group)


def irecv(tensor: Any, src: int | None = None, group: Group | None = None) -> Task | None:
    """Has `tensor` overwritten, once `wait` of what is returned is over, by what `src` sends.

    src: number of a process of the job, the first of the group if not given.
    """
    comm = own_end(group)
    if comm is None:
        return None
    source = 0 if src is None else member(group, src)
    receiving = _Receiving(comm, source, tensor)
    _asked.setdefault((comm, source), deque()).append(receiving)
    return _Awaited(receiving)


def recv(
    tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Overwrites `tensor` with what the job's process `src` sends. None outside the group.

    sync_op: return when it is there; else as `irecv`.
    """
    task = irecv(tensor, src, group)
    if task is not None and sync_op:
        task.wait()
    return task


class P2POp:
    """One of several messages of `batch_isend_irecv`. op: `isend` or `irecv`.

    peer: the number of the other process in the job. RuntimeError for another `op`.
    """

    def __init__(
        self, op: Callable[..., Task | None], tensor: Any, peer: int, group: Group | None = None
    ) -> None:
        if op not in (isend, irecv):
            raise RuntimeError(
                "op is paddle.distributed.isend or paddle.distributed.irecv, not "
                f"{getattr(op, '__name__', op)}"
            )
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Task]:
    """Starts all of these; the tasks of those whose group has this process.

    RuntimeError where there is none, or something else among them.
    """
    if not p2p_op_list or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise RuntimeError("batch_isend_irecv takes a list of paddle.distributed.P2POp")
    started = [one.op(one.tensor, one.peer, one.group) for one in p2p_op_list]
    return [task for task in started if task is not None]
