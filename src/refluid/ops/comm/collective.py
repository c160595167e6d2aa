"""Operators by which replicas exchange values: reductions, broadcasts, gathers."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.communicator import DONE, Work
from refluid.comm.reducing import side_by_side
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_like, no_inference
from refluid.ops.registry import GradOp, operator, starting

_REDUCTIONS = ("sum", "prod", "max", "min")
_LIKE_X = infer_like("Out", "X")
_STREAM = {"use_calc_stream": False, "ring_id": 0}


Reduced = Tensor | SelectedRows


def reduce_over(value: Reduced, comm: Communicator, reduction: str) -> Reduced:
    """The reduction over all replicas; sparse rows are gathered, as only a sum can be."""
    out, work = start_reducing(value, comm, reduction, wait=True)
    work.wait()
    return out


def start_reducing(
    value: Reduced, comm: Communicator, reduction: str, *, wait: bool = False
) -> tuple[Reduced, Work]:
    """The same begun: what holds the result when `Work` is done. Rows are gathered at once."""
    if isinstance(value, Tensor):
        out = value.clone(memory_format=torch.contiguous_format)
        return out, comm.all_reduce([out], reduction, wait=wait)
    if reduction != "sum":
        raise EnforceNotMet(f"sparse rows can be summed over replicas, not reduced by {reduction}")
    parts = [part for part in comm.all_gather(value) if isinstance(part, SelectedRows)]
    return SelectedRows.sum(parts), DONE


@operator("allreduce", outputs="Out", uses=None, infer=_LIKE_X, sums_replicas=True)
def allreduce(
    X: Tensor | SelectedRows, *, comm: Communicator, reduce_type: int = 0, sync_mode: bool = False
) -> Tensor | SelectedRows:
    """X reduced over all replicas. reduce_type: 0 sum, 1 product, 2 maximum, 3 minimum."""
    return reduce_over(X, comm, _REDUCTIONS[reduce_type])


@starting("allreduce")
def allreduce_started(
    X: Tensor | SelectedRows, *, comm: Communicator, reduce_type: int = 0, sync_mode: bool = False
) -> tuple[Reduced, Work]:
    """The same, waited for later."""
    return start_reducing(X, comm, _REDUCTIONS[reduce_type])


@operator("fused_all_reduce", outputs="Out*", uses=None, infer=_LIKE_X, sums_replicas=True)
def fused_all_reduce(X: list[Tensor], *, comm: Communicator) -> list[Tensor]:
    """The sum of each X over all replicas, exchanged at once."""
    out = side_by_side(X)
    comm.all_reduce(out)
    return out


@starting("fused_all_reduce")
def fused_all_reduce_started(X: list[Tensor], *, comm: Communicator) -> tuple[list[Tensor], Work]:
    """The same, waited for later."""
    out = side_by_side(X)
    return out, comm.all_reduce(out, wait=False)


@operator("chosen_all_reduce", outputs="Out", uses=None, infer=_LIKE_X)
def chosen_all_reduce(X: Tensor, Count: Tensor, *, comm: Communicator, scale: float) -> Tensor:
    """The sum of X over all replicas, times `scale`, of X in which few elements aren't zero.

    Count: how many were chosen; all are exchanged where it is all of X, else those alone.
    """
    if int(Count) >= X.numel():
        return _tensor(reduce_over(X, comm, "sum")) * scale
    flat = X.reshape(-1, 1)
    places = flat.squeeze(1).nonzero().squeeze(1)
    rows = SelectedRows(places, flat.shape[0], flat[places])
    parts = [part for part in comm.all_gather(rows) if isinstance(part, SelectedRows)]
    total = torch.zeros_like(flat)
    for part in parts:
        total.index_add_(0, part.index, part.value)
    return total.reshape(X.shape) * scale


def _tensor(value: Reduced) -> Tensor:
    assert isinstance(value, Tensor)
    return value


@operator("broadcast", outputs="Out", uses=None, infer=_LIKE_X)
def broadcast(X: Tensor, *, comm: Communicator, root: int = 0, sync_mode: bool = False) -> Tensor:
    """The X of replica `root`."""
    out = X.clone()
    comm.broadcast([out], root)
    return out


@operator(
    "replica_broadcast",
    outputs="Out*",
    uses=None,
    mutates={"Out": "X"},
    infer=_LIKE_X,
)
def replica_broadcast(X: list[Tensor], *, comm: Communicator, root: int = 0) -> list[Tensor]:
    """Overwrites each X with that of replica `root`, all at once."""
    comm.broadcast(X, root)
    return X


@operator("replica_barrier", outputs="", uses=None, infer=no_inference)
def replica_barrier(*, comm: Communicator) -> tuple[()]:
    """Waits for all replicas."""
    comm.barrier()
    return ()


def _reduced_gradient(op: Operator) -> list[GradOp]:
    """The gradient of a sum over replicas: the sum of theirs."""
    names = [[name + GRAD for name in op.output("Out")], [name + GRAD for name in op.input("X")]]
    return [GradOp("c_allreduce_sum", {"X": names[0]}, {"Out": names[1]})]


def _gathered_gradient(op: Operator) -> list[GradOp]:
    """The gradient of what was gathered: this replica's share of the sum of theirs."""
    names = [[name + GRAD for name in op.output("Out")], [name + GRAD for name in op.input("X")]]
    return [GradOp("c_reducescatter", {"X": names[0]}, {"Out": names[1]})]


def _define(name: str, reduction: str) -> None:
    def body(X: Tensor | SelectedRows, *, comm: Communicator) -> Tensor | SelectedRows:
        return reduce_over(X, comm, reduction)

    body.__name__ = name
    body.__doc__ = f"The {reduction} of X over all replicas."
    maker = _reduced_gradient if reduction == "sum" else None
    operator(
        name,
        outputs="Out",
        uses=None,
        maker=maker,
        infer=_LIKE_X,
        extra=_STREAM,
        sums_replicas=reduction == "sum",
    )(body)

    def started(X: Tensor | SelectedRows, *, comm: Communicator) -> tuple[Reduced, Work]:
        return start_reducing(X, comm, reduction)

    started.__name__ = f"{name}_started"
    starting(name)(started)


for _reduction in ("sum", "max", "min", "prod"):
    _define(f"c_allreduce_{_reduction}", _reduction)


@operator("c_broadcast", outputs="Out", uses=None, infer=_LIKE_X, extra=_STREAM)
def c_broadcast(X: Tensor, *, comm: Communicator, root: int = 0) -> Tensor:
    """The X of replica `root`."""
    out = X.clone()
    comm.broadcast([out], root)
    return out


@operator(
    "c_allgather",
    outputs="Out",
    uses=None,
    maker=_gathered_gradient,
    extra=_STREAM,
)
def c_allgather(X: Tensor, *, comm: Communicator, nranks: int) -> Tensor:
    """The X of all replicas one after the other along dimension 0."""
    if X.is_meta:
        return torch.cat([X] * nranks)
    return torch.cat([part for part in comm.all_gather(X) if isinstance(part, Tensor)])


@operator("c_reducescatter", outputs="Out", uses=None, extra=_STREAM)
def c_reducescatter(X: Tensor, *, comm: Communicator, nranks: int = 1) -> Tensor:
    """This replica's share, along dimension 0, of the sum of X over all replicas."""
    return X[: X.shape[0] // nranks] if X.is_meta else comm.reduce_scatter(X)


for _name, _extra in (("c_sync_calc_stream", {}), ("c_sync_comm_stream", {"ring_id": 0})):

    @operator(_name, outputs="Out", uses=None, infer=_LIKE_X, extra=_extra, views={"Out": "X"})
    def wait(X: Tensor) -> Tensor:
        """X, once it is there: replicas of one process have no streams of their own."""
        return X
