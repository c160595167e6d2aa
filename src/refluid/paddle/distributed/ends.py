"""What the exchanges of `paddle.distributed` have in common: members, reductions, values, tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.build import apply
from refluid.comm import Communicator
from refluid.comm.communicator import DONE, Work
from refluid.eager import VarBase
from refluid.ir.variable import Variable
from refluid.paddle.distributed.groups import Group, everyone


class ReduceOp:
    """How values of several processes become one."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


_REDUCTIONS = {
    ReduceOp.SUM: "sum",
    ReduceOp.MAX: "max",
    ReduceOp.MIN: "min",
    ReduceOp.PROD: "prod",
    ReduceOp.AVG: "sum",  # which is divided
}


class Task:
    """An exchange that was started. work: what is waited for. then: what is done after it."""

    def __init__(self, work: Work = DONE, then: Callable[[], None] = lambda: None) -> None:
        self._work, self._then, self._over = work, then, False

    def wait(self, timeout: Any = None) -> bool:
        """Returns True once the values may be used; raises what went wrong.

        `timeout` has no effect: FLAGS_refluid_exchange_seconds says how long members wait.
        """
        if not self._over:
            self._work.wait()
            self._then()
            self._over = True
        return True

    def is_completed(self) -> bool:
        """Whether the values may be used."""
        return self._over or (self._work.done() and self.wait())

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()


def reduced(comm: Communicator, tensors: Sequence[Tensor], op: int, *, wait: bool = True) -> Task:
    """Overwrites tensors with the reduction over all members.

    ValueError for what is no reduction, TypeError for means of whole numbers.
    """
    divides = takes_mean(op, tensors)

    def finish() -> None:
        for one in tensors if divides else ():
            one.div_(comm.size)

    with torch.no_grad():
        found = Task(comm.all_reduce(tensors, reduction(op), wait=wait), finish)
    if wait:
        found.wait()
    return found


def takes_mean(op: int, tensors: Sequence[Tensor]) -> bool:
    """Whether sums of these are to be divided. TypeError for whole numbers."""
    if op != ReduceOp.AVG:
        return False
    for one in tensors:
        if not (one.is_floating_point() or one.is_complex()):
            raise TypeError(f"ReduceOp.AVG is for fractions, not {one.dtype}")
    return True


def own_group(group: Group | None) -> Group:
    """That group, or all processes."""
    return everyone() if group is None else group


def own_end(group: Group | None) -> Communicator | None:
    """This process's end of the group, None where it isn't in it."""
    return own_group(group).comm


def member(group: Group | None, rank: int) -> int:
    """The number in the group of the job's process `rank`. ValueError where it isn't in it."""
    found = own_group(group).get_group_rank(rank)
    if found < 0:
        raise ValueError(f"process {rank} is none of the group's, {list(own_group(group).ranks)}")
    return found


def reduction(op: int) -> str:
    """How members reduce by one of `ReduceOp`. ValueError for what is none."""
    if op not in _REDUCTIONS:
        raise ValueError(f"op is one of ReduceOp.SUM, MAX, MIN, PROD and AVG, not {op!r}")
    return _REDUCTIONS[op]


def in_program(tensor: Any) -> bool:
    """Whether it is a variable of a program."""
    return isinstance(tensor, Variable) and not isinstance(tensor, VarBase)


def value_of(tensor: Any) -> Tensor:
    """The tensor of a value of dygraph."""
    if isinstance(tensor, VarBase):
        return tensor.tensor.detach()
    if isinstance(tensor, Tensor):
        return tensor.detach()
    raise TypeError(f"processes exchange tensors, not {type(tensor).__name__}")


def eager(value: Tensor) -> VarBase:
    """A value of dygraph."""
    return VarBase(value)


def append_operator(
    op: str, tensor: Variable, out: Variable, group: Group | None, **attrs: Any
) -> None:
    if group is not None and group.id != 0:
        raise NotImplementedError(
            f"{op} in a program is among all processes: groups are for values of dygraph"
        )
    apply(op, {"X": tensor}, {"Out": out}, attrs, block=tensor.block)


def only_at_once(name: str, instead: str) -> None:
    """Refuses a variable of a program, which can have something else."""
    raise NotImplementedError(
        f"paddle.distributed.{name} is for values of dygraph; a program can have {instead}"
    )
