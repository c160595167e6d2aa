"""What a fleet of Paddle 2 does with whole tables of its servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope, scope_guard
from refluid.fluid.incubate.fleet.base.asking import AsksRoleMaker
from refluid.fluid.saving.persistence import save_vars
from refluid.ir.program import Program

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

    def load_inference_model(self, path: str, mode: int = 0) -> None:
        """As `load_model`: what optimizers keep begins anew where the folder lacks it."""
        self.load_model(path, mode)

    def save_dense_params(
        self,
        executor: Any,
        dirname: str,
        scope: Scope,
        program: Program,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Writes parameters of a scope to a folder, a file each, by whoever calls it.

        var_names: all parameters that are no tables of rows unless given.
        """
        served = self._served("save_dense_params")
        block = program.global_block()
        if var_names is None:
            client = served._connection().link.client
            dense = {one.name for one in client.layout.dense}
            chosen = [one for one in block.vars.values() if one.name in dense]
        else:
            chosen = [block.var(name) for name in var_names]
        with scope_guard(scope):
            save_vars(executor, dirname, program, vars=chosen)

    def save_cache_model(self, dirname: str, **configs: Any) -> NoReturn:
        """EnforceNotMet: servers keep no cache of frequent rows to be saved by itself."""
        _without_cache()

    def save_cache_table(
        self, table_id: int, pass_id: int, mem_cache_key_threshold: int = 4_000_000_000
    ) -> NoReturn:
        """EnforceNotMet, as `save_cache_model`."""
        _without_cache()

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


def _without_cache() -> NoReturn:
    raise EnforceNotMet(
        "servers of tables keep no cache of frequent rows beside a table, and there is none to "
        "save: fleet.save_model saves all rows"
    )
