"""Saved parameters and tables back onto servers: as they start, or from a trainer at any time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.rows.ids import deal_ids
from refluid.pserver.layout import DenseParameter, DenseSlice, JobLayout, SparseParameter
from refluid.pserver.messages import Kind, text_array
from refluid.pserver.saved_files import SavedFiles, saved_in
from refluid.pserver.server_programs import own_name, row_state, slices_of
from refluid.pserver.split import Split
from refluid.pserver.table_client import TableClient
from refluid.pserver.table_server import TableServer

# Rows that a trainer sends at once.
_SENT = 2**16


def load_saved_before(split: Split) -> Callable[[TableServer], None]:
    """What gives a server its part of what the user loaded before it began, if anything."""

    def load(server: TableServer) -> None:
        if split.saved is not None and split.saved.folder is not None:
            load_server(server, split, split.saved.folder)

    return load


def load_server(server: TableServer, split: Split, folder: str | Path) -> None:
    """Gives a server its part of what was saved in a folder, by however many servers.

    EnforceNotMet where a parameter's file is missing, damaged, or of another shape. What optimizers
    keep begins anew where there is no file.
    """
    number, saved = _number(server, split.layout), saved_in(folder)
    for param, part in slices_of(split.layout, number):
        names = (param.name, *split.side.updates[param.name].state)
        for name in names:
            own = own_name(param, part, name)
            there = own in server.tables.dense.state() and saved.has(name)
            if name != param.name and not there:
                continue
            _set_slice(server, own, saved.dense(name), param, part)
    for table in split.layout.sparse:
        _load_table(server, split, table, number, saved)


def load_from_trainer(
    client: TableClient, split: Split, folder: str | Path, tables: Collection[str] | None = None
) -> None:
    """Sends what was saved in a folder to running servers: all of it, or these tables alone.

    Rows that the folder lacks stay as they are. EnforceNotMet as of `load_server`; what was sent
    before stays then.
    """
    saved = saved_in(folder)
    for table in split.layout.sparse:
        if tables is not None and table.name not in tables:
            continue
        kept = (table.name, *row_state(split.side.updates[table.name]))
        names = [name for name in kept if name == table.name or saved.has(name)]
        for ids, values in saved.rows(names, table.height):
            for start in range(0, len(ids), _SENT):
                end = start + _SENT
                part = {name: value[start:end] for name, value in values.items()}
                client.set_rows(table.name, ids[start:end], part)
    if tables is None:
        client.set_dense({one.name: saved.dense(one.name) for one in split.layout.dense})


def clear_tables(client: TableClient, tables: Collection[str]) -> None:
    """Has all servers forget all rows of these tables."""
    for table in tables:
        client.ask_all(Kind.IMPORT, arrays=[text_array({"table": table, "forget": True})])


def _number(server: TableServer, layout: JobLayout) -> int:
    return server.number if 0 <= server.number < len(layout.servers) else 0


def _set_slice(
    server: TableServer, own: str, value: Tensor, param: DenseParameter, part: DenseSlice
) -> None:
    target = server.tables.dense.value(own)
    if value.shape == param.shape:
        value = value[part.begin : part.end]
    if value.shape != target.shape:
        raise EnforceNotMet(f"{own} is {tuple(target.shape)}, its file has {tuple(value.shape)}")
    target.copy_(value)


def _load_table(
    server: TableServer, split: Split, table: SparseParameter, number: int, saved: SavedFiles
) -> None:
    found = server.tables.table(table.name)
    kept = [name for name in found.spec.columns if name != table.name and saved.has(name)]
    for ids, values in saved.rows([table.name, *kept], table.height):
        chosen = deal_ids(ids, split.layout.owners, len(split.layout.servers))[number]
        found.put(ids[chosen], {name: value[chosen] for name, value in values.items()})
