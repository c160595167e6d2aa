"""What servers hold as one process would have it, to be saved; and back onto servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file, decode_selected_rows_file
from refluid.core.folders import file_of
from refluid.core.scope import Scope, global_scope
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.draws import RowDraws
from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.layout import DenseParameter, JobLayout, SparseParameter
from refluid.pserver.server_programs import own_name, row_state, slices_of
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.table_server import TableServer
from refluid.pserver.updates import draws_of, initial_op

_CHUNK = 2**20
# A table of more numbers is saved as the rows that there are.
_MOST_DENSE = 2**31


def whole_scope(connection: Any, *, parameters_only: bool) -> Scope:
    """A scope with all that servers hold; what only this trainer has is found in it too."""
    connection.link.flush()
    client, split = connection.link.client, connection.split
    scope = Scope(global_scope())
    values: dict[str, Any] = dict(client.pull())
    if not parameters_only:
        values |= _dense_state(client, split)
    for table in split.layout.sparse:
        values |= _table(client, split, table, parameters_only=parameters_only)
    for name, value in values.items():
        scope.var(name).value = value
    return scope


def _dense_state(client: TableClient, split: Split) -> dict[str, Tensor]:
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
    draws = {table.name: table.draws, **({} if parameters_only else _state_draws(split, table))}
    chunks = list(client.export(table.name))
    ids = torch.cat([ids for ids, _ in chunks]) if chunks else torch.empty(0, dtype=torch.int64)
    kind = getattr(torch, table.dtype)
    outside = len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= table.height)
    made: dict[str, Any] = {}
    for name, draw in draws.items():
        parts = [kept[name] for _, kept in chunks if name in kept]
        if chunks and not parts:
            continue
        rows = torch.cat(parts) if parts else torch.empty((0, table.width), dtype=kind)
        if outside or table.height * table.width > _MOST_DENSE:
            made[name] = SelectedRows(ids, table.height, rows)
        else:
            made[name] = _whole(table.height, rows.shape[1], kind, draw, ids, rows)
    return made


def _whole(
    height: int, width: int, kind: torch.dtype, draw: RowDraws, ids: Tensor, rows: Tensor
) -> Tensor:
    out = torch.empty((height, width), dtype=kind)
    for start in range(0, height, _CHUNK):
        part = out[start : start + _CHUNK]
        draw.fill(torch.arange(start, start + len(part)), part)
    out.index_copy_(0, ids, rows)
    return out


def _state_draws(split: Split, table: SparseParameter) -> dict[str, RowDraws]:
    found = {}
    for name in row_state(split.side.updates[table.name]):
        draws = draws_of(initial_op(split.side.startup, name), name)
        if draws is not None:
            found[name] = draws
    return found


# -- back onto servers --------------------------------------------------------


def load_server(server: TableServer, split: Split, folder: str | Path) -> None:
    """Gives a server its part of what was saved in a folder, a file for each variable.

    EnforceNotMet where a parameter's file is missing, damaged, or of another shape. What optimizers
    keep begins anew where there is no file.
    """
    number = _number(server, split.layout)
    home = Path(folder)
    for param, part in slices_of(split.layout, number):
        names = (param.name, *split.side.updates[param.name].state)
        for name in names:
            own = own_name(param, part, name)
            if name != param.name and own not in server.tables.dense.state():
                continue
            value = _read(home, name, needed=name == param.name)
            if value is not None:
                _set_slice(server, own, value, param, part)
    for table in split.layout.sparse:
        _load_table(server, split, table, number, home)


def _number(server: TableServer, layout: JobLayout) -> int:
    return server.number if 0 <= server.number < len(layout.servers) else 0


def _set_slice(
    server: TableServer, own: str, value: Tensor, param: DenseParameter, part: Any
) -> None:
    target = server.tables.dense.value(own)
    if value.shape == param.shape:
        value = value[part.begin : part.end]
    if value.shape != target.shape:
        raise EnforceNotMet(f"{own} is {tuple(target.shape)}, its file has {tuple(value.shape)}")
    target.copy_(value)


def _read(folder: Path, name: str, *, needed: bool) -> Any:
    path = file_of(folder, name)
    if not path.is_file():
        if needed:
            raise EnforceNotMet(f"{path}: there is no such file")
        return None
    return decode_file(path).tensor


def _load_table(
    server: TableServer, split: Split, table: SparseParameter, number: int, folder: Path
) -> None:
    found = server.tables.table(table.name)
    names = [name for name in found.spec.columns if name == table.name or _is_file(folder, name)]
    for ids, values in _rows(folder, names, table):
        chosen = deal_ids(ids, split.layout.owners, len(split.layout.servers))[number]
        found.put(ids[chosen], {name: value[chosen] for name, value in values.items()})


def _is_file(folder: Path, name: str) -> bool:
    return file_of(folder, name).is_file()


def _rows(
    folder: Path, names: list[str], table: SparseParameter
) -> Iterator[tuple[Tensor, Mapping[str, Tensor]]]:
    """Ids and rows of the files of a table, which are whole or have rows."""
    for name in names:
        path = file_of(folder, name)
        try:
            whole = decode_file(path).tensor
        except EnforceNotMet:
            rows = decode_selected_rows_file(path)
            yield rows.index, {name: rows.value}
            continue
        if whole.shape[0] != table.height:
            raise EnforceNotMet(f"{path} has {whole.shape[0]} rows, the table {table.height}")
        for start in range(0, len(whole), _CHUNK):
            part = whole[start : start + _CHUNK]
            yield torch.arange(start, start + len(part)), {name: part}
