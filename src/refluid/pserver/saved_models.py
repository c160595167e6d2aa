"""What servers hold as one process would have it, to be saved."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.core.scope import Scope, global_scope
from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.layout import SparseParameter
from refluid.pserver.saved_files import whole_table
from refluid.pserver.server_programs import own_name, row_state
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.updates import draws_of, initial_op


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
