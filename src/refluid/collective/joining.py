"""With which processes a compiled program is trained."""

from __future__ import annotations

from dataclasses import replace

from refluid.comm import ALONE, Communicator
from refluid.core.errors import EnforceNotMet
from refluid.engine.strategy import Strategy
from refluid.ir.program import Program


def with_trainers(strategy: Strategy, program: Program) -> Strategy:
    """The strategy with the trainers that a transpiler told the program, unless it names some.

    EnforceNotMet where the two say different numbers.
    """
    if program._trainers is None or strategy.trainers_endpoints:
        return strategy
    rank, endpoints = program._trainers
    asked = strategy.trainer_id, strategy.num_trainers
    if strategy.num_trainers > 1 and asked != (rank, len(endpoints)):
        raise EnforceNotMet(
            f"the program was transpiled for trainer {rank} of {len(endpoints)}, but is to be run "
            f"by trainer {asked[0]} of {asked[1]}"
        )
    return replace(
        strategy,
        num_trainers=len(endpoints),
        trainer_id=rank,
        trainers_endpoints=endpoints,
        **program._exchange_options,
    )


def trainers_of(strategy: Strategy) -> Communicator:
    """The processes that train together; this one joins them the first time."""
    if strategy.num_trainers <= 1:
        return ALONE
    from refluid.collective.job import joined_as  # most programs have one trainer

    return joined_as(strategy.trainer_id, strategy.num_trainers, strategy.trainers_endpoints)
