"""Whose value of a variable counts where each trainer updates its share of the parameters."""

from __future__ import annotations

from typing import Any

from refluid.engine.strategy import ReduceStrategy
from refluid.passes.data_parallel import balance, gradient_block, updates


def owners_of(program: Any, trainers: int) -> dict[str, int]:
    """Variable -> trainer, of those that one trainer alone updates: in Reduce mode.

    program: plain or compiled.
    """
    compiled = getattr(program, "_run_as", None) or program
    strategy = getattr(compiled, "_build_strategy", None)
    if trainers == 1 or strategy is None or strategy.reduce_strategy != ReduceStrategy.Reduce:
        return {}
    plain = compiled._program
    replicated = compiled._replicated
    places = len(replicated.places) if replicated is not None else 1
    owners = balance(gradient_block(plain), trainers * places)
    found: dict[str, int] = {}
    for op in updates(plain):
        owner = owners.get(op.input("Param")[0])
        if owner is not None:
            found |= dict.fromkeys(op.output_arg_names, owner // places)
    return found
