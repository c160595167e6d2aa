"""What servers hold, written as shards of safetensors without ever being in memory as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from refluid.core.scope import global_scope
from refluid.pserver.layout import SparseParameter
from refluid.pserver.saved_files import about_tables, ids_name, rows_name
from refluid.pserver.saved_models import dense_state, kept_draws
from refluid.pserver.server_programs import row_state
from refluid.pserver.shards import ShardPiece, write_shards
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient

_ROWS = 2**20


def save_shards(
    connection: Any,
    folder: str | Path,
    tables: Collection[str] | None = None,
    *,
    parameters_only: bool = False,
) -> None:
    """Writes all that servers hold, or these tables alone, to a folder that anybody can load.

    parameters_only: without what optimizers keep. Rows that are made while it is written are left
    out. EnforceNotMet where the files can't be written.
    """
    connection.link.flush()
    client, split = connection.link.client, connection.split
    pieces = [] if tables is not None else _dense(client, split, parameters_only)
    counts = dict(zip(client.layout.numbers, [one["rows"] for one in client.state()], strict=True))
    about = {}
    for table in split.layout.sparse:
        if tables is not None and table.name not in tables:
            continue
        draws = kept_draws(split, table, parameters_only=parameters_only)
        kept = _kept(client, table, draws)
        parts = list(_parts(client, table, kept, {n: one[table.name] for n, one in counts.items()}))
        pieces += parts
        told = {name: vars(draws[name]) for name in kept}
        about[table.name] = {"height": table.height, "parts": len(parts), "draws": told}
    write_shards(folder, pieces, about_tables(about))


def _dense(client: TableClient, split: Split, parameters_only: bool) -> list[ShardPiece]:
    values: Mapping[str, Tensor] = client.pull()
    if not parameters_only:
        values = {**_own(split), **values, **dense_state(client, split)}
    return [
        ShardPiece((name,), value.nbytes, partial(dict, {name: value}))
        for name, value in values.items()
    ]


def _own(split: Split) -> dict[str, Tensor]:
    """What only this trainer has, such as states of metrics."""
    tables = {one.name for one in split.layout.sparse}
    tables |= {name for one in tables for name in row_state(split.side.updates[one])}
    found = {}
    for var in split.side.main.list_vars():
        cell = global_scope().find_var(var.name) if var.persistable else None
        if cell is not None and isinstance(cell.value, Tensor) and var.name not in tables:
            found[var.name] = cell.value
    return found


def _kept(
    client: TableClient, table: SparseParameter, draws: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Of each variable that servers keep rows of, none of its rows; GEO's keep the table alone."""
    for server in client.layout.numbers:
        for _, found in client.export_of(server, table.name, 0, 1):
            return {name: found[name][:0] for name in draws if name in found}
    return {table.name: torch.empty((0, table.width), dtype=getattr(torch, table.dtype))}


def _parts(
    client: TableClient,
    table: SparseParameter,
    kept: Mapping[str, Tensor],
    counts: Mapping[int, int],
) -> Iterator[ShardPiece]:
    """Rows of a table, some of one server at a time; one empty part where there are none."""
    row = 8 + sum(one.shape[1] * one.itemsize for one in kept.values())
    places = [(n, start) for n, count in counts.items() for start in range(0, count, _ROWS)]
    for part, (server, start) in enumerate(places or [(client.layout.numbers[0], 0)]):
        rows = min(_ROWS, counts[server] - start)
        names = (ids_name(table.name, part), *(rows_name(name, part) for name in kept))
        make = partial(_rows, client, table.name, kept, server, start, rows, part)
        yield ShardPiece(names, rows * row, make)


def _rows(
    client: TableClient,
    table: str,
    kept: Mapping[str, Tensor],
    server: int,
    start: int,
    rows: int,
    part: int,
) -> dict[str, Tensor]:
    none = torch.empty(0, dtype=torch.int64), dict(kept)
    chunks = list(client.export_of(server, table, start, start + rows)) or [none]
    ids = torch.cat([ids for ids, _ in chunks])
    values = {name: torch.cat([found[name] for _, found in chunks]) for name in kept}
    return {ids_name(table, part): ids} | {rows_name(name, part): values[name] for name in kept}
