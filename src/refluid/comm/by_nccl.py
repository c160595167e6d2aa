"""`ByNccl`: gradients on GPUs are summed by NCCL; digests and all else go as of other members.

NCCL works on a stream of its own. It waits for what the tensors' stream had to do when an exchange
was started, and that stream waits for it where the result is used; no thread waits for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm.agreeing import described
from refluid.comm.around import Around
from refluid.comm.communicator import Communicator, Work
from refluid.comm.processes import Processes
from refluid.comm.reducing import by_type, in_one_memory
from refluid.comm.stages import Stages
from refluid.comm.values import gather_values
from refluid.core import flags
from refluid.kernels.process_groups import has_nccl, nccl

_OPERATIONS = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN"}


class GpuLane:
    """NCCL's all-reduces of one process's tensors, one after the other on a stream.

    group: torch's. cuda: `torch.cuda`.
    """

    def __init__(self, group: Any, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._group, self._device, self._cuda = group, device, cuda
        self._stream = cuda.Stream(device)

    def mark(self) -> Any:
        """What the caller's stream has to do until now."""
        return self._marked(self._cuda.current_stream(self._device))

    def all_reduce(self, tensors: Sequence[Tensor], reduction: str, ready: Any) -> Any:
        """Has them reduced once `ready` is over; what tells the end. Doesn't wait."""
        options = torch.distributed.AllreduceOptions()
        options.reduceOp = getattr(torch.distributed.ReduceOp, _OPERATIONS[reduction])
        with self._cuda.stream(self._stream):
            self._stream.wait_event(ready)
            for alike in by_type(tensors):
                whole = in_one_memory(alike)
                for one in alike if whole is None else [whole]:
                    self._group.allreduce([one], options).wait()  # the stream does
        return self._marked(self._stream)

    def join(self, done: Any) -> None:
        """The caller's stream goes on after that."""
        self._cuda.current_stream(self._device).wait_event(done)

    def _marked(self, stream: Any) -> Any:
        event = self._cuda.Event()
        event.record(stream)
        return event


class ByNccl(Around):
    """Reductions of tensors that all are on the GPU of `lane` go there."""

    def __init__(self, inner: Processes, lane: GpuLane) -> None:
        super().__init__(inner)
        self._members, self._lane = inner, lane

    def all_reduce(
        self, tensors: Sequence[Tensor], reduction: str = "sum", *, wait: bool = True
    ) -> Work:
        if reduction not in _OPERATIONS or not all(map(_fits, tensors)) or not tensors:
            return self._inner.all_reduce(tensors, reduction, wait=wait)
        done: list[Any] = []
        stages = self._stages(tensors, reduction, self._lane.mark(), done)
        # In the order in which they are asked for, waited for or not: as NCCL wants them.
        found = _OnStream(self._members.begin(stages, wait=False), self._lane, done)
        if wait:
            found.wait()
        return found

    def _stages(
        self, tensors: Sequence[Tensor], reduction: str, ready: Any, done: list[Any]
    ) -> Stages:
        # Members that do different things learn of it before one of them gives NCCL anything.
        what = [f"reduce by {reduction}, on GPUs", *described(tensors)]
        yield from self._members.agreeing(what, wait=False)
        done.append(self._lane.all_reduce(tensors, reduction, ready))


class _OnStream:
    """An exchange that a stream waits for."""

    def __init__(self, work: Work, lane: GpuLane, done: list[Any]) -> None:
        self._work, self._lane, self._done = work, lane, done

    def wait(self) -> None:
        self._work.wait()
        for one in self._done:
            self._lane.join(one)

    def done(self) -> bool:
        return self._work.done()


def by_nccl(members: Processes, device: torch.device) -> Communicator:
    """The members, reducing by NCCL where all have a GPU of their own; all must call this."""
    usable = device.type == "cuda" and has_nccl() and bool(flags.value("refluid_nccl"))
    told = gather_values(members, _name(device) if usable else "")
    if not of_their_own(told):
        return members
    group = nccl(members.store, members.path, members.rank, members.size, members.timeout)
    return ByNccl(members, GpuLane(group, device))


def of_their_own(gpus: Sequence[str]) -> bool:
    """Whether all members have a GPU that no other one has; empty names are none."""
    return all(gpus) and len(set(gpus)) == len(gpus)


def _name(device: torch.device) -> str:
    """That of a GPU among all machines'."""
    return str(torch.cuda.get_device_properties(device).uuid)


def _fits(tensor: Tensor) -> bool:
    return tensor.is_cuda and tensor.is_contiguous()
