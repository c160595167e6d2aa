"""Steps that trainers run together, and what one without data does meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from torch import Tensor

from refluid.comm.world import attendance
from refluid.core.scope import Scope
from refluid.engine.prepare import Prepared
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program

T = TypeVar("T")
_FORWARD = (OpRole.FORWARD, OpRole.LOSS)


def together(
    ready: Prepared,
    scopes: Sequence[Scope],
    run: Callable[[], T],
    fed: Sequence[Tensor] = (),
    replicas: int = 1,
) -> T:
    """What `run()` gives: a step of what is prepared.

    Where it exchanges something with other trainers it is one that all run; where this trainer is
    without data it is repeated (see `comm.attendance`), and statistics of batches stay as they are.
    fed: what one of its replicas is fed.
    """
    if ready.program._servers is not None and fed:
        rows = _rows(fed)
        found = run()
        ready.program._servers.stepped(rows * replicas)
        return found
    if ready.conditions.trainers == 1 or not ready.number:
        return run()
    there = attendance()
    if there is None:
        return run()
    names = ready.program.derived(_statistics)

    def repeat() -> None:
        with _kept(scopes, names):
            run()

    return there.step(ready.number, run, repeat, _rows(fed) * replicas)


def _rows(fed: Sequence[Tensor]) -> int:
    """Of a batch: sequences have more in theirs."""
    return min((len(one) for one in fed if one.dim()), default=0)


def _statistics(program: Program) -> list[str]:
    """What outlives a run and tells of its batch: neither updates, nor schedules and counters."""
    kept = {var.name for var in program.list_vars() if var.persistable}
    ops = [op for block in program.blocks for op in block.ops if op.role in _FORWARD]
    of_batch = [op for op in ops if not kept.issuperset(op.input_arg_names)]
    return sorted({name for op in of_batch for name in op.output_arg_names if name in kept})


@contextmanager
def _kept(scopes: Sequence[Scope], names: Sequence[str]) -> Iterator[None]:
    """After the block those variables are as before."""
    cells = [cell for one in scopes for name in names if (cell := one.find_var(name)) is not None]
    before = [(cell, cell.value) for cell in cells if isinstance(cell.value, Tensor)]
    copies = [(cell, value.clone()) for cell, value in before]
    yield
    for cell, value in copies:
        if isinstance(cell.value, Tensor) and cell.value.shape == value.shape:
            cell.value.copy_(value)
