"""`Communicator`: what sends an asynchronous trainer's gradients, for scripts without a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.core.flags import set_flags
from refluid.fluid.transpiler.distribute_transpiler import DistributedMode
from refluid.ir.program import Program

__all__ = ["Communicator"]


class Communicator:
    """Sends what a program hands on, from `start` to `stop`.

    program: as DistributeTranspiler left it; TypeError for others. mode: of DistributedMode, as
    which it was transpiled. envs: values of FLAGS_communicator_*, by name.
    """

    def __init__(
        self, program: Any, mode: Any, kwargs: Any = None, envs: Mapping[str, Any] = {}
    ) -> None:
        if not isinstance(program, Program) or program._servers is None:
            raise TypeError("Communicator needs a program that was transpiled for servers")
        self.mode = DistributedMode.ASYNC if mode is None else mode
        self._connection = program._servers
        names = {name if name.startswith("FLAGS_") else f"FLAGS_{name}": name for name in envs}
        set_flags({flag: int(envs[name]) for flag, name in names.items()})

    def start(self) -> None:
        """Tells the servers that this trainer begins, where they don't know."""
        self._connection.open()

    def stop(self) -> None:
        """Sends what is left, and tells the servers that this trainer ends."""
        self._connection.close()

    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return bool(self._connection.is_open)
