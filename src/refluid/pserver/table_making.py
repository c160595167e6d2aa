"""`TableMaking`: a server's tables as the environment wants them: in memory or on disk, limited."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import environment_int, environment_str
from refluid.pserver.disk_rows import RowStore, emptied
from refluid.pserver.disk_table import DiskTable
from refluid.pserver.layout import SparseParameter
from refluid.pserver.row_policies import admission_of
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_spec import Eviction, TableSpec

_FOLDER, _MEMORY = "REFLUID_TABLE_FOLDER", "REFLUID_TABLE_MEMORY"
_PASSES, _ROWS = "REFLUID_TABLE_PASSES", "REFLUID_TABLE_ROWS"
_USUAL_MEMORY = 1024
# Beside a table on disk its counts have that share of its memory.
_COUNTS = 0.25


@dataclass(frozen=True)
class TableMaking:
    """How tables are made.

    eviction: of rows, if any. folder: where those on disk are. memory: bytes that the rows of all
    of them together may take of memory. tables: how many there are.
    """

    eviction: Eviction | None = None
    folder: Path | None = None
    memory: int = 2**30
    tables: int = 1
    store: RowStore | None = None

    def make(self, spec: TableSpec, table: SparseParameter) -> SparseTable:
        """A table. EnforceNotMet where it is to be on disk and no folder is named."""
        share = self.memory // self.tables
        counted = None if self.eviction is None else Eviction(self.eviction.passes)

        def counts(given: TableSpec) -> SparseTable:
            if self.store is None:
                return SparseTable(given, None, counted)
            return DiskTable(given, self.store, int(_COUNTS * share), None, counted)

        admission = admission_of(table.entry, table.name, counts)
        if self.store is not None:
            return DiskTable(spec, self.store, share, admission, self.eviction)
        if table.on_disk:
            raise EnforceNotMet(
                f"table {table.name} is to be on disk (SSDSparseTable): set {_FOLDER} to a folder "
                "for the servers"
            )
        return SparseTable(spec, admission, self.eviction)


def making_of_environment(tables: int, number: int, *, goes_on: bool) -> TableMaking:
    """As the environment of server `number` says; its store is opened where it has one.

    goes_on: from a checkpoint, with what is on disk; else that begins anew.
    """
    passes, rows = environment_int(_PASSES, 0) or 0, environment_int(_ROWS, 0) or 0
    eviction = Eviction(passes, rows) if passes or rows else None
    memory = (environment_int(_MEMORY, _USUAL_MEMORY) or _USUAL_MEMORY) * 2**20
    folder = environment_str(_FOLDER)
    if folder is None:
        return TableMaking(eviction, None, memory, max(1, tables))
    home = Path(folder) / f"server-{number}"
    store = RowStore(home if goes_on else emptied(home))
    return TableMaking(eviction, home, memory, max(1, tables), store)
