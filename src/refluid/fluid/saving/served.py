"""Programs whose parameters are on servers are saved as if one process had trained them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from refluid.core.errors import EnforceNotMet
from refluid.core.scope import global_scope, scope_guard
from refluid.ir.program import Program


@contextmanager
def as_trained_alone(program: Program, *, parameters_only: bool = False) -> Iterator[Program]:
    """The program before it was parted, in a scope with all that servers hold; else itself.

    Also one beside it that reads their tables. parameters_only: without what optimizers keep, and
    to predict by: large tables are rows. EnforceNotMet for tables of servers that were left.
    """
    elsewhere = global_scope().served
    missing = [] if elsewhere is None else elsewhere.missing(program, global_scope())
    if program._servers is not None:
        connections = [program._servers]
    else:
        connections = [connection for connection, _ in missing]
    if not (connections and all(one.is_open for one in connections)):
        if missing:
            names = sorted(name for _, tables in missing for name in tables)
            raise EnforceNotMet(
                f"{', '.join(names)}: servers have the rows, and this trainer left them: save "
                "before Executor.close() and fleet.stop_worker()"
            )
        yield program
        return
    from refluid.pserver.saved_models import predicting, whole_scope  # most have no servers

    own = program._servers
    trained = program if own is None else own.split.side.main
    with ExitStack() as within:
        for connection in connections:
            scope = whole_scope(connection, parameters_only=parameters_only)
            within.enter_context(scope_guard(scope))
            if parameters_only:
                trained = predicting(trained, connection.split, scope)
        yield trained
