"""What all stages of a pipeline have, in the scope of each for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from refluid.comm import Communicator
from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.ir.program import Program
from refluid.passes.pipeline_placing import Placing, owner_of


def owners(program: Program, placing: Placing) -> dict[str, int]:
    """The stage that has each parameter, and what else the passes read and outlasts a step."""
    return {
        name: owner_of(placing, name)
        for name, var in sorted(program.global_block().vars.items())
        if var.persistable and var.type == VarType.LOD_TENSOR and placing.read.get(name)
    }


@contextmanager
def gathered(
    program: Program, placing: Placing, pipe: Communicator, scope: Scope
) -> Iterator[None]:
    """Within the block the scope holds the parameters of all stages, which all must enter it."""
    block, taken = program.global_block(), dict[str, torch.Tensor]()
    owned = owners(program, placing)
    for stage in range(pipe.size):
        names = [name for name, owner in owned.items() if owner == stage]
        if stage == pipe.rank:
            pipe.broadcast([_held(scope, name) for name in names], stage)
            continue
        empty = {
            name: torch.empty(tuple(block.vars[name].shape), dtype=to_torch(block.vars[name].dtype))
            for name in names
        }
        pipe.broadcast(list(empty.values()), stage)
        taken |= {name: one for name, one in empty.items() if pipe.rank not in placing.read[name]}
    for name, value in taken.items():
        scope.var(name).value = value
    try:
        yield
    finally:
        for name in taken:
            scope.var(name).value = None


def _held(scope: Scope, name: str) -> torch.Tensor:
    cell = scope.find_var(name)
    if cell is None or not isinstance(cell.value, torch.Tensor):
        raise EnforceNotMet(f"{name!r} has no value: run the startup program first")
    return cell.value
