"""Rows that a server answers with, looked up where the other end reads them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from refluid.pserver.applying import ServedTables
from refluid.pserver.messages import Array
from refluid.pserver.sparse_table import SparseTable

NamedRows = list[tuple[str, "AnsweredRows"]]


class AnsweredRows:
    """The rows of ids, int64 [n], for an answer that is packed while the table stays as it is.

    reads: no rows are made.
    """

    def __init__(self, table: SparseTable, ids: Tensor, *, reads: bool) -> None:
        self._look_up, self._ids = table.peek if reads else table.look_up, ids
        self.dtype, self.shape = table.spec.array_type, (ids.shape[0], table.width)

    def fill(self, out: Array) -> None:
        """Looks them up, [n, width], whatever was there."""
        self._look_up(self._ids, torch.from_numpy(out))


def answered_rows(
    tables: ServedTables, asked: Iterable[tuple[str, Tensor]], mark: str = "", *, reads: bool
) -> NamedRows:
    """Rows of tables, named by `mark` and the table. CallRefused or MalformedMessage, and no row
    made, where one isn't there or is asked for by what are no ids."""
    found = [(name, tables.table_of(name, ids), ids) for name, ids in asked]
    return [(mark + name, AnsweredRows(table, ids, reads=reads)) for name, table, ids in found]
