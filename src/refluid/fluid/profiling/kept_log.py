"""What profilers note from when they begin until they end."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.core import events
from refluid.fluid.profiling.kernels import KernelEvent, KernelEvents


class KeptLog:
    """A log that is kept until `end`, whatever was kept before.

    on_device: kernels are noted too, where there is a GPU. memory: allocations too.
    """

    def __init__(self, *, on_device: bool, memory: bool) -> None:
        self._kernels = KernelEvents()
        self._on_device = on_device
        if on_device:
            self._kernels.start()
        self.log = events.Log(memory=memory)
        self._former = events.keep(self.log)

    def end(self) -> Sequence[KernelEvent]:
        """Keeps what was kept before; the kernels that ran."""
        events.keep(self._former)
        return self._kernels.stop()

    def restart(self) -> None:
        """Forgets what was noted so far."""
        self.log.clear()
        if self._on_device:
            self._kernels.restart()
