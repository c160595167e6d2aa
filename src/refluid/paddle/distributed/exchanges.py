"""Exchanges between processes, of values of dygraph or as operators of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.build import apply
from refluid.comm import Communicator
from refluid.comm.communicator import DONE, Work
from refluid.eager import VarBase
from refluid.fluid.functions.tensor.joining import split
from refluid.ir.variable import Variable
from refluid.paddle.distributed.groups import Group, everyone

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "alltoall",
    "barrier",
    "broadcast",
    "recv",
    "reduce",
    "scatter",
    "send",
    "wait",
]


class ReduceOp:
    """How values of several processes become one."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3


_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
    ReduceOp.PROD: "prod",
}


def all_reduce(
    tensor: Any, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Work | None:
    """Overwrites `tensor` with the reduction over all processes of the group.

    sync_op: return when it is done; else it may be used after `wait` of what is returned. In a
    program, and where this process isn't in the group, None is returned.
    """
    reduction = _reduction(op)
    if _in_program(tensor):
        _append(f"c_allreduce_{reduction}", tensor, tensor, group)
        return None
    comm = _comm(group)
    if comm is None:
        return None
    value = _value(tensor)
    with torch.no_grad():
        return comm.all_reduce([value], reduction, wait=sync_op)


def broadcast(
    tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True
) -> Work | None:
    """Overwrites `tensor` with that of the job's process `src`."""
    if _in_program(tensor):
        _append("c_broadcast", tensor, tensor, group, root=src)
        return None
    comm = _comm(group)
    if comm is None:
        return None
    with torch.no_grad():
        comm.broadcast([_value(tensor)], _member(group, src))
    return DONE


def reduce(
    tensor: Any,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> Work | None:
    """Overwrites the `tensor` of the job's process `dst` with the reduction over the group."""
    if _in_program(tensor):
        _only_at_once("reduce", "all_reduce")
    comm = _comm(group)
    if comm is None:
        return None
    total = _value(tensor).clone()
    comm.all_reduce([total], _reduction(op))
    if comm.rank == _member(group, dst):
        with torch.no_grad():
            _value(tensor).copy_(total)
    return DONE


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Group | None = None, sync_op: bool = True
) -> Work | None:
    """Appends the `tensor` of each process of the group to `tensor_list`, by rank."""
    if _in_program(tensor):
        count = _own(group).nranks
        whole = tensor.block.create_var(dtype=tensor.dtype, shape=[-1, *tensor.shape[1:]])
        _append("c_allgather", tensor, whole, group, nranks=count)
        tensor_list.extend(split(whole, count, 0))
        return None
    comm = _comm(group)
    if comm is None:
        return None
    found = [one for one in comm.all_gather(_value(tensor)) if isinstance(one, Tensor)]
    tensor_list.extend(map(_eager, found))
    return DONE


def scatter(
    tensor: Any,
    tensor_list: Sequence[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Work | None:
    """Overwrites `tensor` with the part of `tensor_list`, of the job's process `src`, for this one.

    ValueError where there isn't a part for each.
    """
    if _in_program(tensor):
        _only_at_once("scatter", "broadcast")
    comm = _comm(group)
    if comm is None:
        return None
    value = _value(tensor)
    given = [value] * comm.size
    root = _member(group, src)
    if comm.rank == root:
        given = list(map(_value, tensor_list or ()))
        if len(given) != comm.size:
            raise ValueError(f"scatter to {comm.size} processes takes as many, not {len(given)}")
    with torch.no_grad():
        value.copy_(comm.all_to_all(given)[root])
    return DONE


def alltoall(
    in_tensor_list: Sequence[Any],
    out_tensor_list: list[Any],
    group: Group | None = None,
    sync_op: bool = True,
) -> Work | None:
    """Appends what each process of the group has for this one to `out_tensor_list`, by rank."""
    comm = _comm(group)
    if comm is None:
        return None
    given = list(map(_value, in_tensor_list))
    out_tensor_list.extend(map(_eager, comm.all_to_all(given)))
    return DONE


def send(tensor: Any, dst: int = 0, group: Group | None = None, sync_op: bool = True) -> None:
    """Sends `tensor` to the job's process `dst`, which must call `recv`."""
    comm = _comm(group)
    if comm is not None:
        comm.send([_value(tensor)], _member(group, dst))


def recv(tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True) -> None:
    """Overwrites `tensor` with what the job's process `src` sends."""
    comm = _comm(group)
    if comm is not None:
        with torch.no_grad():
            comm.recv([_value(tensor)], _member(group, src))


def barrier(group: Group | None = None) -> None:
    """Waits for all processes of the group."""
    comm = _comm(group)
    if comm is not None:
        comm.barrier()


def wait(tensor: Any, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Nothing: exchanges are done when they return, or when `wait` of their work does."""


# -- the pieces ---------------------------------------------------------------------------------


def _own(group: Group | None) -> Group:
    return everyone() if group is None else group


def _comm(group: Group | None) -> Communicator | None:
    """This process's end of the group, None where it isn't in it."""
    return _own(group).comm


def _member(group: Group | None, rank: int) -> int:
    """The number in the group of the job's process `rank`. ValueError where it isn't in it."""
    found = _own(group).get_group_rank(rank)
    if found < 0:
        raise ValueError(f"process {rank} is none of the group's, {list(_own(group).ranks)}")
    return found


def _reduction(op: int) -> str:
    if op not in _REDUCTIONS:
        raise ValueError(f"op is one of ReduceOp.SUM, MAX, MIN and PROD, not {op!r}")
    return _REDUCTIONS[op]


def _in_program(tensor: Any) -> bool:
    return isinstance(tensor, Variable) and not isinstance(tensor, VarBase)


def _value(tensor: Any) -> Tensor:
    """The tensor of a value of dygraph."""
    if isinstance(tensor, VarBase):
        return tensor.tensor.detach()
    if isinstance(tensor, Tensor):
        return tensor.detach()
    raise TypeError(f"processes exchange tensors, not {type(tensor).__name__}")


def _eager(value: Tensor) -> VarBase:
    return VarBase(value)


def _append(op: str, tensor: Variable, out: Variable, group: Group | None, **attrs: Any) -> None:
    if group is not None and group.id != 0:
        raise NotImplementedError(
            f"{op} in a program is among all processes: groups are for values of dygraph"
        )
    apply(op, {"X": tensor}, {"Out": out}, attrs, block=tensor.block)


def _only_at_once(name: str, instead: str) -> None:
    raise NotImplementedError(
        f"paddle.distributed.{name} is for values of dygraph; a program can have {instead}"
    )
