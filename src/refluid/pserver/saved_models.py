"""What servers hold as one process would have it, to be saved."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from refluid.build import apply
from refluid.core.dtypes import VarType
from refluid.core.scope import Scope, global_scope
from refluid.core.selected_rows import SelectedRows
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.layout import SparseParameter
from refluid.pserver.saved_files import whole_table
from refluid.pserver.server_programs import own_name, row_state
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.updates import draws_of, initial_op, lookups_of


def whole_scope(connection: Any, *, parameters_only: bool) -> Scope:
    """A scope with all that servers hold; what only this trainer has is found in it too."""
    connection.link.flush()
    client, split = connection.link.client, connection.split
    scope = Scope(global_scope())
    values: dict[str, Any] = dict(client.pull())
    if not parameters_only:
        values |= dense_state(client, split)
    for table in split.layout.sparse:
        values |= _table(client, split, table, parameters_only=parameters_only)
    for name, value in values.items():
        scope.var(name).value = value
    return scope


def predicting(program: Program, split: Split, scope: Scope) -> Program:
    """lookup_table(W) -> lookup_rows(W) where the scope has the table W as rows.

    The program itself, or a copy: unknown ids are read as their rows would begin.
    """
    held = {one: scope.find_var(one.name) for one in split.layout.sparse}
    draws = {
        table.name: json.dumps(asdict(table.draws))
        for table, cell in held.items()
        if cell is not None and isinstance(cell.value, SelectedRows)
    }
    if not draws:
        return program
    made = program.clone()
    for name in draws:
        made.global_block().var(name).type = VarType.SELECTED_ROWS
        for op in lookups_of(made).get(name, []):
            _look_up_rows(op, draws[name])
    return made


def _look_up_rows(op: Operator, first_rows: str) -> None:
    block, place = op.block, op.idx
    ends = {"W": op.input("W"), "Ids": op.input("Ids")}, {"Out": op.output("Out")}
    attrs = {
        "lookup_table_version": op.type,
        "padding_idx": op.attr("padding_idx"),
        "first_rows": first_rows,
    }
    Editor(block).remove(op)
    with block.program.roles(OpRole.FORWARD):
        apply("lookup_rows", *ends, attrs, block=block, index=place)


def dense_state(client: TableClient, split: Split) -> dict[str, Tensor]:
    """What optimizers keep, learning rates and counters, by their names in the program."""
    held = client.states()
    known = split.side.main.global_block().vars
    found = {name: value for one in held.values() for name, value in one.items() if name in known}
    for param in client.layout.dense:
        for name in split.side.updates[param.name].state:
            parts = [(held[part.server], own_name(param, part, name)) for part in param.slices]
            own = [state[one] for state, one in parts if one in state]
            if len(own) < len(parts):
                continue  # GEO: the trainer has it
            rows = known[name].shape == param.shape and len(own) > 1
            found[name] = torch.cat(own) if rows else own[0]
    return found


def _table(
    client: TableClient, split: Split, table: SparseParameter, *, parameters_only: bool
) -> dict[str, Any]:
    """The table, and what is kept for its rows: whole, or as rows where it is too large."""
    chunks = list(client.export(table.name))
    ids = torch.cat([ids for ids, _ in chunks]) if chunks else torch.empty(0, dtype=torch.int64)
    kind = getattr(torch, table.dtype)
    made: dict[str, Any] = {}
    for name, draw in kept_draws(split, table, parameters_only=parameters_only).items():
        parts = [kept[name] for _, kept in chunks if name in kept]
        if chunks and not parts:
            continue
        rows = torch.cat(parts) if parts else torch.empty((0, table.width), dtype=kind)
        made[name] = whole_table(table.height, draw, ids, rows)
    return made


def kept_draws(
    split: Split, table: SparseParameter, *, parameters_only: bool
) -> dict[str, RowDraws]:
    """How rows begin of a table, and of what is kept for each, by variable."""
    found = {table.name: table.draws}
    for name in () if parameters_only else row_state(split.side.updates[table.name]):
        draws = draws_of(initial_op(split.side.startup, name), name)
        if draws is not None:
            found[name] = draws
    return found
