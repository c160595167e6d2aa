"""Programs whose parameters are on servers are saved as if one process had trained them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refluid.core.scope import scope_guard
from refluid.ir.program import Program


@contextmanager
def as_trained_alone(program: Program, *, parameters_only: bool = False) -> Iterator[Program]:
    """The program before it was parted, in a scope with all that servers hold; else itself.

    parameters_only: without what optimizers keep, and to predict by: large tables are rows.
    """
    connection = program._servers
    if connection is None or not connection.is_open:
        yield program
        return
    from refluid.pserver.saved_models import predicting, whole_scope  # most have no servers

    scope = whole_scope(connection, parameters_only=parameters_only)
    with scope_guard(scope):
        yield predicting(connection.split, scope) if parameters_only else connection.split.side.main
