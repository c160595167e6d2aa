"""What a trainer's scope knows of tables that are on servers, for programs beside the job's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.pserver.trainer_programs import make_lookups_remote
from refluid.pserver.updates import is_lookup

_log = logging.getLogger("refluid")
_FETCHED = (
    "table %s is fetched from a trainer, where zeros stand for its rows, which servers have: "
    "fluid.io.save_vars(executor, folder, main_program, ['%s']) writes them, and TableReader of "
    "refluid.pserver.reading reads some"
)


@dataclass(frozen=True, eq=False)
class TablesElsewhere:
    """The tables of a job, and this trainer's `Connection` to their servers.

    former: of another job, whose startup program was run in the same scope before. told: tables of
    which was said that they can't be fetched.
    """

    connection: Any
    former: TablesElsewhere | None = None
    told: set[str] = field(default_factory=set)

    def tell(self, scopes: Sequence[Scope]) -> None:
        """Before a startup program is run: these scopes have what stands for the tables."""
        for scope in scopes:
            known = scope.served
            if known is None or all(one.connection is not self.connection for one in known.jobs()):
                scope.served = replace(self, former=known)

    def jobs(self) -> Iterator[TablesElsewhere]:
        """Of each job, the latest first."""
        yield self
        if self.former is not None:
            yield from self.former.jobs()

    def missing(self, program: Program, scope: Scope) -> list[tuple[Any, frozenset[str]]]:
        """By connection, the program's tables of which the scope has no rows, but a stand-in."""
        own, found = program.global_block().vars, []
        for job in self.jobs():
            tables = job.connection.split.layout.tables
            names = frozenset(one for one in tables if one in own and _is_stand_in(scope, one))
            if names:
                found.append((job.connection, names))
        return found

    def tell_of_fetched(self, names: Sequence[str], scope: Scope) -> None:
        """Warns once of each table that is fetched: what stands for it has no row's numbers."""
        for job in self.jobs():
            tables = job.connection.split.layout.tables
            for name in names:
                if name in tables and name not in job.told and _is_stand_in(scope, name):
                    job.told.add(name)
                    _log.warning(_FETCHED, name, name)

    def in_place_of(self, program: Program, scope: Scope) -> Program:
        """lookup_table(w) -> distributed_lookup_table(w), in a copy that is run instead.

        Where a program was cloned before the job's was split, or made by itself. EnforceNotMet
        where an operator needs a whole table.
        """
        if program._servers is None:
            for connection, tables in self.missing(program, scope):
                program = program.derived(_Asking(connection, tables))
        return program


@dataclass(frozen=True)
class _Asking:
    """A program's copy whose lookups in these tables ask the servers; itself if it has none."""

    connection: Any
    tables: frozenset[str]

    def __call__(self, program: Program) -> Program:
        readers = [op for one in program.blocks for op in one.ops if self.tables & _read(op)]
        for op in readers:
            if not (is_lookup(op) and op.block is program.global_block()):
                self._refuse(op)
        if not readers:
            return program
        made, split = program.clone(), self.connection.split
        for op in made.global_block().ops:
            if self.tables & _read(op):
                op.set_attr("is_sparse", True)
        servers, trainer = split.where
        where = {"endpoints": list(servers), "trainer_id": trainer}
        any_ids = split.options.any_ids
        make_lookups_remote(made.global_block(), split.layout, where, any_ids=any_ids)
        return made

    def _refuse(self, op: Operator) -> NoReturn:
        (table, *_) = sorted(self.tables & _read(op))
        raise EnforceNotMet(
            f"operator {op.title} needs table {table!r}, of which a trainer has no rows: servers "
            "have them, and trainers ask for those that embeddings look up in a program's global "
            f"block. It was made here:\n{op.made_at}"
        )


def _read(op: Operator) -> set[str]:
    """The variables of which an operator needs more than the shape."""
    sizes = facts_of(op.type).shape_only
    return {name for slot, names in op.inputs.items() if slot not in sizes for name in names}


def _is_stand_in(scope: Scope, name: str) -> bool:
    """Whether the value is one number in the place of all, as `fake_init` gives it."""
    cell = scope.find_var(name)
    value = None if cell is None else cell.value
    return isinstance(value, Tensor) and value.dim() == 2 and value.stride() == (0, 0)
