"""What a fleet of Paddle 2 does with whole tables of its servers."""

from __future__ import annotations

from typing import Any

from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker

__all__ = ["FleetTables"]


class FleetTables(AsksRoleMaker):
    """Tables go by their numbers, in the order of the program. ValueError without servers."""

    _servers: Any = None

    def load_model(self, path: str, mode: int = 0) -> None:
        """Sends what `save_persistables` or `save_model` left in a folder to the servers."""
        self._served("load_model").load_model(path, mode=mode)

    def load_one_table(self, table_id: int, path: str, mode: int = 0) -> None:
        """The same of one table."""
        self._served("load_one_table").load_one_table(table_id, path, mode=mode)

    def save_model(self, path: str, mode: int = 0) -> None:
        """Writes all tables and parameters to shards of safetensors, by the first worker.

        mode: 1 or 2: without what optimizers keep.
        """
        self._served("save_model").save_model(path, mode=mode)

    def save_one_table(self, table_id: int, path: str, mode: int = 0) -> None:
        """The same of one table."""
        self._served("save_one_table").save_one_table(table_id, path, mode=mode)

    def shrink(self, threshold: int | None = None) -> None:
        """Ends a pass of the servers' tables, once for all workers that call it.

        Rows are forgotten that weren't updated in `threshold` passes, REFLUID_TABLE_PASSES of the
        servers unless given.
        """
        served = self._served("shrink")
        if self.is_first_worker():
            served.shrink(threshold)

    def _served(self, name: str) -> Any:
        if self._servers is None:
            raise ValueError(f"fleet.{name} is for tables of servers: fleet.init() with some")
        return self._servers
