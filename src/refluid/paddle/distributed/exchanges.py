"""Exchanges between processes, of values of dygraph or as operators of a program.

As the documentation of Paddle 2.6 says them. Each returns a `Task` that has ended, but of
`all_reduce` where `sync_op` is False; in a program, and outside of the group, None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.fluid.functions.tensor.joining import split
from refluid.paddle.distributed.ends import (
    ReduceOp,
    Task,
    append_operator,
    eager,
    in_program,
    member,
    only_at_once,
    own_end,
    own_group,
    reduced,
    reduction,
    takes_mean,
    value_of,
)
from refluid.paddle.distributed.groups import Group

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
    "wait",
]


def all_reduce(
    tensor: Any, op: int = ReduceOp.SUM, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Overwrites `tensor` with the reduction over all processes of the group.

    sync_op: return when it is done; else it may be used after `wait` of what is returned.
    """
    if in_program(tensor):
        if op == ReduceOp.AVG:
            only_at_once("all_reduce by ReduceOp.AVG", "ReduceOp.SUM and a scale")
        append_operator(f"c_allreduce_{reduction(op)}", tensor, tensor, group)
        return None
    comm = own_end(group)
    return None if comm is None else reduced(comm, [value_of(tensor)], op, wait=sync_op)


def broadcast(
    tensor: Any, src: int = 0, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Overwrites `tensor` with that of the job's process `src`."""
    if in_program(tensor):
        append_operator("c_broadcast", tensor, tensor, group, root=src)
        return None
    comm = own_end(group)
    if comm is None:
        return None
    with torch.no_grad():
        comm.broadcast([value_of(tensor)], member(group, src))
    return Task()


def reduce(
    tensor: Any,
    dst: int = 0,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Overwrites the `tensor` of the job's process `dst` with the reduction over the group."""
    if in_program(tensor):
        only_at_once("reduce", "all_reduce")
    comm = own_end(group)
    if comm is None:
        return None
    total = value_of(tensor).clone()
    reduced(comm, [total], op)
    if comm.rank == member(group, dst):
        _overwrite(tensor, total)
    return Task()


def reduce_scatter(
    tensor: Any,
    tensor_list: Sequence[Any],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Overwrites `tensor` with the reduction of all processes' parts for this one.

    tensor_list: a part of the shape of `tensor` for each process of the group, by rank; ValueError
    where there are others.
    """
    if in_program(tensor):
        only_at_once("reduce_scatter", "all_reduce")
    comm = own_end(group)
    if comm is None:
        return None
    whole = torch.stack(_for_each(comm, tensor_list, "reduce_scatter"))
    divides, (shared,) = takes_mean(op, [whole]), comm.reduce_scatter(whole, reduction(op))
    _overwrite(tensor, shared / comm.size if divides else shared)
    return Task()


def all_gather(
    tensor_list: list[Any], tensor: Any, group: Group | None = None, sync_op: bool = True
) -> Task | None:
    """Appends the `tensor` of each process of the group to `tensor_list`, by rank."""
    if in_program(tensor):
        count = own_group(group).nranks
        whole = tensor.block.create_var(dtype=tensor.dtype, shape=[-1, *tensor.shape[1:]])
        append_operator("c_allgather", tensor, whole, group, nranks=count)
        tensor_list.extend(split(whole, count, 0))
        return None
    comm = own_end(group)
    if comm is None:
        return None
    found = [one for one in comm.all_gather(value_of(tensor)) if isinstance(one, Tensor)]
    tensor_list.extend(map(eager, found))
    return Task()


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Appends the `tensor` of each process to the `gather_list` of the job's process `dst`."""
    if in_program(tensor):
        only_at_once("gather", "all_gather")
    comm = own_end(group)
    if comm is None:
        return None
    value, root = value_of(tensor), member(group, dst)
    if comm.rank == root and gather_list is None:
        raise ValueError(f"process {dst}, which gathers, needs a gather_list")
    nothing = value.new_empty(0)
    found = comm.all_to_all([value if one == root else nothing for one in range(comm.size)])
    if comm.rank == root and gather_list is not None:
        gather_list.extend(map(eager, found))
    return Task()


def scatter(
    tensor: Any,
    tensor_list: Sequence[Any] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Overwrites `tensor` with the part of `tensor_list`, of the job's process `src`, for this one.

    ValueError where there isn't a part for each.
    """
    if in_program(tensor):
        only_at_once("scatter", "broadcast")
    comm = own_end(group)
    if comm is None:
        return None
    root = member(group, src)
    given = [value_of(tensor).new_empty(0)] * comm.size
    if comm.rank == root:
        given = _for_each(comm, tensor_list or (), "scatter")
    _overwrite(tensor, comm.all_to_all(given)[root])
    return Task()


def alltoall(
    in_tensor_list: Sequence[Any],
    out_tensor_list: list[Any],
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Appends what each process of the group has for this one to `out_tensor_list`, by rank."""
    comm = own_end(group)
    if comm is None:
        return None
    given = _for_each(comm, in_tensor_list, "alltoall")
    out_tensor_list.extend(map(eager, comm.all_to_all(given)))
    return Task()


def alltoall_single(
    in_tensor: Any,
    out_tensor: Any,
    in_split_sizes: Sequence[int] | None = None,
    out_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
) -> Task | None:
    """Overwrites `out_tensor` with the rows of each process's `in_tensor` for this one, by rank.

    in_split_sizes: how many rows each process gets, equally many if not given; out_split_sizes:
    how many come from each. ValueError where these aren't the rows that there are, or that come.
    """
    if in_program(in_tensor):
        only_at_once("alltoall_single", "all_gather")
    comm = own_end(group)
    if comm is None:
        return None
    given, out = value_of(in_tensor), value_of(out_tensor)
    wanted = _rows(comm, out, out_split_sizes, "out_split_sizes")
    parts = torch.split(given, _rows(comm, given, in_split_sizes, "in_split_sizes"))
    found = comm.all_to_all(parts)
    came = list(map(len, found))
    if came != wanted:
        raise ValueError(f"{came} rows came from the processes, where {wanted} were asked for")
    _overwrite(out_tensor, torch.cat(found))
    return Task()


def barrier(group: Group | None = None) -> None:
    """Waits for all processes of the group."""
    comm = own_end(group)
    if comm is not None:
        comm.barrier()


def wait(tensor: Any, group: Group | None = None, use_calc_stream: bool = True) -> None:
    """Nothing: exchanges are done when they return, or when `wait` of their task does."""


def _overwrite(tensor: Any, value: Tensor) -> None:
    with torch.no_grad():
        value_of(tensor).copy_(value)


def _for_each(comm: Communicator, tensors: Sequence[Any], name: str) -> list[Tensor]:
    """The tensors of a list which has one for each process. ValueError where it hasn't."""
    if len(tensors) != comm.size:
        raise ValueError(f"{name} to {comm.size} processes takes as many, not {len(tensors)}")
    return [value_of(one) for one in tensors]


def _rows(comm: Communicator, tensor: Tensor, sizes: Sequence[int] | None, name: str) -> list[int]:
    """How many rows of a tensor each process has. ValueError where that can't be."""
    rows = len(tensor)
    if sizes is None and rows % comm.size == 0:
        return [rows // comm.size] * comm.size
    found = list(sizes or ())
    if len(found) != comm.size or sum(found) != rows:
        raise ValueError(f"{name} for {comm.size} processes has to sum to {rows}, not {found}")
    return found
