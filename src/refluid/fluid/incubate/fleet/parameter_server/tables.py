"""What a fleet does with whole tables of its servers: saves, loads, clears and counts them."""

from __future__ import annotations

import logging
from typing import Any

from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker

_log = logging.getLogger("refluid")
# Of save_model and its like: all that there is, or parameters without what optimizers keep.
_EVERYTHING, _WITHOUT_STATE = (0, 3), (1, 2)


class FleetTables(AsksRoleMaker):
    """Tables go by their numbers, in the order of the program; the next number is the dense ones'.

    Folders have shards of safetensors (`pserver/shards.py`); what is loaded may be Fluid's files
    too. The first worker writes and loads; others wait for it where `_together` says so.
    """

    def _connection(self) -> Any:
        raise NotImplementedError

    def _together(self) -> None:
        """Waits for the other workers, where they all do the same."""

    # -- files ----------------------------------------------------------------

    def save_model(self, model_dir: str | None = None, **kwargs: Any) -> None:
        """Writes all tables and parameters to a folder.

        mode: 0 or 3 for all, 1 or 2 without what optimizers keep (a delta, 1, has all rows too).
        ValueError for another.
        """
        self._save(_folder(model_dir), None, kwargs)

    def save_one_table(self, table_id: int, model_dir: str, **kwargs: Any) -> None:
        """The same of one table. prefix: a folder within. ValueError for a number of none."""
        prefix = kwargs.pop("prefix", None)
        folder = model_dir if prefix is None else f"{model_dir}/{prefix}"
        self._save(folder, self._names(table_id), kwargs)

    def load_model(self, model_dir: str | None = None, **kwargs: Any) -> None:
        """Sends what a folder has to the servers; rows that it lacks stay.

        What is kept for rows comes too, as far as it is there. EnforceNotMet for damaged files.
        """
        _mode(kwargs)
        self._load(_folder(model_dir), None)

    def load_one_table(self, table_id: int, model_path: str, **kwargs: Any) -> None:
        """The same of one table. ValueError for a number of none."""
        _mode(kwargs)
        self._load(model_path, self._names(table_id))

    def _save(self, folder: str, tables: list[str] | None, options: dict[str, Any]) -> None:
        from refluid.pserver.sharding import save_shards

        without = _mode(options) in _WITHOUT_STATE
        self._connection().link.flush()
        self._together()
        if self.is_first_worker():
            save_shards(self._connection(), folder, tables, parameters_only=without)
        self._together()

    def _load(self, folder: str, tables: list[str] | None) -> None:
        from refluid.pserver.loading import load_from_trainer

        connection = self._connection()
        connection.link.flush()
        self._together()
        if self.is_first_worker():
            load_from_trainer(connection.link.client, connection.split, folder, tables)
        self._together()

    # -- rows -----------------------------------------------------------------

    def clear_model(self) -> None:
        """Has servers forget all rows of all tables; they begin anew when they come again."""
        self._clear([one.name for one in self._connection().split.layout.sparse])

    def clear_one_table(self, table_id: int) -> None:
        """The same of one table. ValueError for a number of none."""
        self._clear(self._names(table_id))

    def _clear(self, names: list[str]) -> None:
        from refluid.pserver.loading import clear_tables

        self._connection().link.flush()
        self._together()
        if self.is_first_worker():
            clear_tables(self._connection().link.client, names)
        self._together()

    def print_table_stat(self, table_id: int) -> None:
        """Prints how many rows and bytes the servers have of a table, on the first worker."""
        if self.is_first_worker():
            for name in self._names(table_id):
                found = self._connection().link.client.state()
                rows = sum(one["rows"][name] for one in found)
                size = sum(one["bytes"][name] for one in found)
                print(f"table {table_id} ({name}): {rows:,} rows, {size:,} bytes")
        self._together()

    def _names(self, table_id: int) -> list[str]:
        """The table of that number; none for the number of the dense parameters."""
        names = [one.name for one in self._connection().split.layout.sparse]
        if not isinstance(table_id, int) or not 0 <= table_id <= len(names):
            raise ValueError(
                f"there is no table {table_id!r}: {len(names)} of rows, {', '.join(names)}, from "
                "0 on, then one of dense parameters"
            )
        return names[table_id : table_id + 1]


def _folder(given: str | None) -> str:
    if not given:
        raise ValueError("a folder must be given: model_dir")
    return given


def _mode(options: dict[str, Any]) -> int:
    """The mode that was asked for; what else was is told of."""
    mode = int(options.get("mode", 0))
    if mode not in (*_EVERYTHING, *_WITHOUT_STATE):
        raise ValueError(f"mode {mode}: there are 0 to 3")
    others = sorted(options.keys() - {"mode"})
    if others:
        _log.warning("%s: means nothing for tables of refluid", ", ".join(others))
    return mode
