"""Whose value of a variable counts, where trainers have parts of what is trained."""

from __future__ import annotations

from typing import Any

from refluid.analysis.split_state import split_state
from refluid.comm.world import ring
from refluid.engine.conditions import stage_of
from refluid.engine.strategy import ReduceStrategy
from refluid.ir.program import Program
from refluid.passes.data_parallel import balance, gradient_block, updates
from refluid.passes.ownership import owners_of as share_owners


def parts_of(program: Program) -> dict[str, int]:
    """Variables of which each trainer has a part only -> how many parts there are.

    Trainer r has part r % parts.
    """
    return {name: ring(number).size for name, number in split_state(program).items()}


def owners_of(program: Any, trainers: int) -> dict[str, int]:
    """Variable -> trainer, of those that one trainer alone updates: with sharding, in Reduce mode.

    program: plain or compiled.
    """
    compiled = getattr(program, "_run_as", None) or program
    if trainers == 1 or not isinstance(getattr(compiled, "_program", None), Program):
        return {}
    if split_state(compiled._program):
        return {}  # several trainers own parts of one variable
    plain, strategy, replicated = compiled._program, compiled._wanted(), compiled._replicated
    places = len(replicated.places) if replicated is not None else 1
    if stage_of(strategy, trainers, places):
        # The first of those that have a share.
        return share_owners(plain, strategy.sharding_degree or trainers)
    if strategy.reduce_strategy != ReduceStrategy.Reduce:
        return {}
    owners = balance(gradient_block(plain), trainers * places)
    found: dict[str, int] = {}
    for op in updates(plain):
        owner = owners.get(op.input("Param")[0])
        if owner is not None:
            found |= dict.fromkeys(op.output_arg_names, owner // places)
    return found
