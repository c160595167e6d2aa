"""`paddle.distributed.stream`: the exchanges by their other names and orders of arguments.

`use_calc_stream` changes nothing: they are done when they return, or when their task's `wait` does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from torch import Tensor

from refluid.paddle.distributed import exchanges, pairs
from refluid.paddle.distributed.ends import ReduceOp, Task, eager, own_end, value_of
from refluid.paddle.distributed.groups import Group

__all__ = [
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
]

_Parts = Any  # a list of tensors, or one with those of all processes after each other


def _streamed(exchange: Callable[..., Task | None]) -> Callable[..., Task | None]:
    """The same, with `use_calc_stream` after its parameters."""
    own = inspect.signature(exchange)
    last = inspect.Parameter(
        "use_calc_stream", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False
    )
    whole = own.replace(parameters=[*own.parameters.values(), last])

    @wraps(exchange)
    def streamed(*given: Any, **named: Any) -> Task | None:
        asked = whole.bind(*given, **named).arguments
        asked.pop("use_calc_stream", None)
        return exchange(**asked)

    streamed.__signature__ = whole  # type: ignore[attr-defined]
    return streamed


all_reduce = _streamed(exchanges.all_reduce)
broadcast = _streamed(exchanges.broadcast)
reduce = _streamed(exchanges.reduce)
gather = _streamed(exchanges.gather)
send = _streamed(pairs.send)
recv = _streamed(pairs.recv)


def all_gather(
    tensor_or_tensor_list: _Parts,
    tensor: Any,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """As `paddle.distributed.all_gather`, into a list or the rows of a tensor."""
    return _into(
        tensor_or_tensor_list, lambda found: exchanges.all_gather(found, tensor, group, sync_op)
    )


def alltoall(
    out_tensor_or_tensor_list: _Parts,
    in_tensor_or_tensor_list: _Parts,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """As `paddle.distributed.alltoall`, of lists or of the rows of tensors."""
    given = _listed(in_tensor_or_tensor_list, group)
    return _into(
        out_tensor_or_tensor_list, lambda found: exchanges.alltoall(given, found, group, sync_op)
    )


def alltoall_single(
    out_tensor: Any,
    in_tensor: Any,
    out_split_sizes: Sequence[int] | None = None,
    in_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """As `paddle.distributed.alltoall_single`, what comes before what goes."""
    return exchanges.alltoall_single(
        in_tensor, out_tensor, in_split_sizes, out_split_sizes, group, sync_op
    )


def reduce_scatter(
    tensor: Any,
    tensor_or_tensor_list: _Parts,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """As `paddle.distributed.reduce_scatter`, of a list or the rows of a tensor."""
    parts = _listed(tensor_or_tensor_list, group)
    return exchanges.reduce_scatter(tensor, parts, op, group, sync_op)


def scatter(
    tensor: Any,
    tensor_or_tensor_list: _Parts = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = False,
) -> Task | None:
    """As `paddle.distributed.scatter`, of a list or the rows of a tensor."""
    given = tensor_or_tensor_list
    parts = None if given is None else _listed(given, group)
    return exchanges.scatter(tensor, parts, src, group, sync_op)


def _listed(given: _Parts, group: Group | None) -> Sequence[Any]:
    """The tensors for each process. ValueError where rows can't be divided."""
    if isinstance(given, list | tuple):
        return given
    comm, rows = own_end(group), value_of(given)
    if comm is None:
        return []
    if len(rows) % comm.size:
        raise ValueError(f"{comm.size} processes can't share {len(rows)} rows")
    return [eager(one) for one in rows.chunk(comm.size)]


def _into(where: _Parts, exchange: Callable[[list[Any]], Task | None]) -> Task | None:
    """Has an exchange append to a list, or overwrite the rows of a tensor with what it gives."""
    if isinstance(where, list):
        return exchange(where)
    found: list[Any] = []
    task = exchange(found)
    if task is not None:
        rows = value_of(where)
        parts: list[Tensor] = list(rows.chunk(len(found)))
        for own, one in zip(parts, found, strict=True):
            own.copy_(value_of(one))
    return task
