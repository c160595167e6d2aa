"""By whom a program is run on a dataset."""

from __future__ import annotations

from typing import Any

from refluid.collective.joining import with_trainers
from refluid.core.errors import EnforceNotMet
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.engine.choices import overlaid
from refluid.engine.dataset_training import Runs
from refluid.engine.group import Group
from refluid.engine.strategy import DEFAULT
from refluid.fluid.compiler import CompiledProgram, _strategy
from refluid.ir.program import Program


def runs_of(program: Any, group: Group, scope: Scope, place: Place) -> tuple[Program, Runs]:
    """The plain program, and the executor's group or, for one of several processes, its own.

    TypeError where it is no program, EnforceNotMet where it is compiled for several processes with
    several places in each.
    """
    if isinstance(program, Program) and program._run_as is not None:
        program = program._run_as
    if isinstance(program, CompiledProgram):
        return program._program, _along(program, scope, place) or Runs(group, overlaid(DEFAULT))
    if not isinstance(program, Program):
        raise TypeError(f"Executor requires Program as its Parameter. But got {type(program)}")
    return program, Runs(group, overlaid(DEFAULT))


def _along(compiled: CompiledProgram, scope: Scope, place: Place) -> Runs | None:
    """A replica that trains along with other processes; None where there are none."""
    strategy = with_trainers(_strategy(compiled._build_strategy), compiled._program)
    if strategy.num_trainers <= 1 or not compiled._is_data_parallel:
        return None
    if compiled._replicated is None:
        compiled._places = compiled._places or [place]
    found = compiled._compile(scope, place)
    if len(found.places) > 1:
        raise EnforceNotMet(
            "a dataset trains a program of several processes on one place in each, not on "
            f"{len(found.places)}: give with_data_parallel one place"
        )
    return Runs(found.group, found.strategy, found.loss)
