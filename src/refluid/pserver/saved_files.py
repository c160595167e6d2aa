"""Folders of what servers held: a file of Fluid's for each variable, or shards of safetensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file, decode_selected_rows_file
from refluid.core.folders import file_of
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.draws import RowDraws
from refluid.pserver.shards import ShardedTensors, is_sharded

_CHUNK = 2**20
# A table of more numbers is one of rows in memory too.
_MOST_DENSE = 2**31
_IDS = "@IDS"
_FORMAT = "refluid tables 1"

IdsAndRows = tuple[Tensor, Mapping[str, Tensor]]


class SavedFiles(Protocol):
    """What a folder has of a job's parameters. EnforceNotMet where a file is damaged."""

    def has(self, name: str) -> bool:
        """Whether there is something of that name."""

    def dense(self, name: str) -> Tensor:
        """A variable that is no table's; EnforceNotMet where there is none."""

    def rows(self, names: Sequence[str], height: int) -> Iterator[IdsAndRows]:
        """Ids, and rows by variable, of a table (the first name) and what is kept for it."""


def saved_in(folder: str | Path) -> SavedFiles:
    """What is in a folder, of either kind."""
    return ShardedTables(folder) if is_sharded(folder) else FluidFiles(folder)


class FluidFiles:
    """A file for each variable; a table's has all its rows, or those that there are."""

    def __init__(self, folder: str | Path) -> None:
        self._home = Path(folder)

    def has(self, name: str) -> bool:
        return file_of(self._home, name).is_file()

    def dense(self, name: str) -> Tensor:
        path = file_of(self._home, name)
        if not path.is_file():
            raise EnforceNotMet(f"{path}: there is no such file")
        return decode_file(path).tensor

    def rows(self, names: Sequence[str], height: int) -> Iterator[IdsAndRows]:
        for name in names:
            path = file_of(self._home, name)
            try:
                whole = decode_file(path).tensor
            except EnforceNotMet:
                rows = decode_selected_rows_file(path)
                yield rows.index, {name: rows.value}
                continue
            if whole.shape[0] != height:
                raise EnforceNotMet(f"{path} has {whole.shape[0]} rows, the table {height}")
            for start in range(0, len(whole), _CHUNK):
                part = whole[start : start + _CHUNK]
                yield torch.arange(start, start + len(part)), {name: part}


class ShardedTables:
    """Shards: variables by their names, and of each table parts of `ids_name` and `rows_name`."""

    def __init__(self, folder: str | Path) -> None:
        self._home, self.tensors = Path(folder), ShardedTensors(folder)
        self.tables: dict[str, dict[str, Any]] = self.tensors.about.get("tables", {})
        if self.tensors.about.get("format") != _FORMAT:
            raise EnforceNotMet(f"{folder} has shards of safetensors, but no tables of servers")

    def has(self, name: str) -> bool:
        known = set(self.tensors.names)
        return name in known or rows_name(name, 0) in known

    def dense(self, name: str) -> Tensor:
        return self.tensors.read(name)

    def rows(self, names: Sequence[str], height: int) -> Iterator[IdsAndRows]:  # noqa: ARG002
        table = names[0]
        for part in range(self._parts(table)):
            ids = self.tensors.read(ids_name(table, part))
            values = {name: self.tensors.read(rows_name(name, part)) for name in names}
            fits = all(one.dim() == 2 and len(one) == len(ids) for one in values.values())
            if ids.dtype != torch.int64 or ids.dim() != 1 or not fits:
                raise EnforceNotMet(
                    f"{self._home}: part {part} of table {table} is no ids and rows"
                )
            yield ids, values

    def whole(self, name: str) -> Tensor | SelectedRows:
        """A variable as one process has it: rows that aren't there as they would begin."""
        owner = next((one for one in self.tables if name in self._draws(one)), None)
        if owner is None:
            return self.dense(name)
        parts = [
            (self.tensors.read(ids_name(owner, part)), self.tensors.read(rows_name(name, part)))
            for part in range(self._parts(owner))
        ]
        ids = torch.cat([ids for ids, _ in parts])
        rows = torch.cat([rows for _, rows in parts])
        draw = RowDraws(**self._draws(owner)[name])
        return whole_table(int(self.tables[owner]["height"]), draw, ids, rows)

    def rows_of(self, table: str, ids: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """Those of the ids that have a row, and their rows."""
        wanted = torch.tensor(ids, dtype=torch.int64)
        for found, values in self.rows([table], 0):
            for place in torch.isin(found, wanted).nonzero().view(-1).tolist():
                yield int(found[place]), values[table][place]

    def _parts(self, table: str) -> int:
        if table not in self.tables:
            raise EnforceNotMet(f"{self._home} has no table {table}")
        return int(self.tables[table]["parts"])

    def _draws(self, table: str) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.tables[table]["draws"]
        return found


def about_tables(tables: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """What an index says of tables: height, parts, and how rows of each variable begin."""
    return {"format": _FORMAT, "tables": tables}


def ids_name(table: str, part: int) -> str:
    """What shards call the ids of a part of a table."""
    return f"{table}{_IDS}#{part}"


def rows_name(name: str, part: int) -> str:
    """What shards call the rows that a part of a table has of a variable."""
    return f"{name}#{part}"


def whole_table(height: int, draw: RowDraws, ids: Tensor, rows: Tensor) -> Tensor | SelectedRows:
    """A table as one process has it, or its rows where it is too large or ids are outside."""
    outside = len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= height)
    if outside or height * rows.shape[1] > _MOST_DENSE:
        return SelectedRows(ids, height, rows)
    out = rows.new_empty((height, rows.shape[1]))
    for start in range(0, height, _CHUNK):
        part = out[start : start + _CHUNK]
        draw.fill(torch.arange(start, start + len(part)), part)
    out.index_copy_(0, ids, rows)
    return out
