"""`paddle.static.Executor`."""

from __future__ import annotations

from typing import Any

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.executor import Executor as FluidExecutor
from refluid.paddle.framework.devices import as_place, expected_place


class Executor(FluidExecutor):
    """Runs programs on a place: a name such as `gpu:0` too; what `set_device` said where None."""

    def __init__(self, place: Place | str | None = None) -> None:
        super().__init__(expected_place() if place is None else as_place(place))

    def run(  # type: ignore[override]
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Runs a program once; the fetched values in the order of `fetch_list`. As Fluid's."""
        return super().run(
            program,
            feed,
            fetch_list,
            feed_var_name,
            fetch_var_name,
            scope,
            return_numpy,
            use_program_cache,
            use_prune=use_prune,
        )
