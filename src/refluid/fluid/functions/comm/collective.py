"""Layers by which trainers exchange values. Each trainer's program must have the same ones."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable

_REDUCTIONS = ("sum", "prod", "max", "min")


def _allreduce(
    x: Variable, out: Variable | None = None, reduce_type: str = "sum", sync_mode: bool = False
) -> Variable:
    """`x` reduced over all trainers by sum, prod, max or min. TypeError for another one."""
    attrs = {"reduce_type": _number(reduce_type), "sync_mode": sync_mode}
    return op("allreduce", {"X": x}, attrs, out=out)


def _broadcast(x: Variable, root: int, sync_mode: bool = False) -> Variable:
    """Overwrites `x` with that of trainer `root`, and returns it."""
    return op("broadcast", {"X": x}, {"root": root, "sync_mode": sync_mode}, out=x)


def _c_allreduce(
    x: Variable,
    out: Variable | None = None,
    reduce_type: str = "sum",
    ring_id: int = 0,
    use_calc_stream: bool = False,
) -> Variable:
    """`x` reduced over all trainers by sum, prod, max or min. TypeError for another one."""
    _number(reduce_type)
    attrs = {"ring_id": ring_id, "use_calc_stream": use_calc_stream}
    return op(f"c_allreduce_{reduce_type}", {"X": x}, attrs, out=out)


def _c_broadcast(
    x: Variable, root: int = 0, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """Overwrites `x` with that of trainer `root`, and returns it."""
    attrs = {"root": root, "ring_id": ring_id, "use_calc_stream": use_calc_stream}
    return op("c_broadcast", {"X": x}, attrs, out=x)


def _c_allgather(
    x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """The `x` of all `nranks` trainers, joined along dimension 0."""
    attrs = {"nranks": nranks, "ring_id": ring_id, "use_calc_stream": use_calc_stream}
    return op("c_allgather", {"X": x}, attrs)


def _c_reducescatter(
    x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """This trainer's share, along dimension 0, of the sum of `x` over all `nranks` trainers.

    TypeError for what is no variable, ValueError where the rows can't be shared.
    """
    if not isinstance(x, Variable):
        raise TypeError("x must be a Variable")
    if x.shape[0] > 0 and x.shape[0] % nranks:
        raise ValueError(f"x.shape[0]({x.shape[0]}) cannot be evenly divided by nranks({nranks})")
    attrs = {"nranks": nranks, "ring_id": ring_id, "use_calc_stream": use_calc_stream}
    return op("c_reducescatter", {"X": x}, attrs)


def _c_sync_calc_stream(x: Variable) -> Variable:
    """`x`: what it needs is always there before it is exchanged."""
    return op("c_sync_calc_stream", {"X": x}, out=x)


def _c_sync_comm_stream(x: Variable, ring_id: int) -> Variable:
    """`x`: an exchange is waited for where its result is used."""
    return op("c_sync_comm_stream", {"X": x}, {"ring_id": ring_id}, out=x)


def _number(reduction: str) -> int:
    if reduction not in _REDUCTIONS:
        raise TypeError(f"reduce type can only be {', '.join(_REDUCTIONS)}, not {reduction!r}")
    return _REDUCTIONS.index(reduction)
