"""What goes on, told at the bottom of the terminal while it does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.live import Live

_PER_SECOND = 4


class _Bottom:
    """The last lines of the terminal, which several parts of the program share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tellers: list[Callable[[], RenderableType]] = []
        self._live: Live | None = None

    def add(self, tell: Callable[[], RenderableType]) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            self._tellers.append(tell)
            if self._live is None:
                self._live = Live(
                    console=Console(stderr=True),
                    get_renderable=self._all,
                    refresh_per_second=_PER_SECOND,
                    transient=True,
                    redirect_stdout=sys.stdout.isatty(),
                )
                self._live.start()

    def remove(self, tell: Callable[[], RenderableType]) -> None:
        with self._lock:
            self._tellers.remove(tell)
            if not self._tellers and self._live is not None:
                live, self._live = self._live, None
                live.stop()

    def _all(self) -> Group:
        from rich.console import Group

        return Group(*[tell() for tell in list(self._tellers)])


_bottom = _Bottom()


def on_terminal() -> bool:
    """Whether somebody may be looking: stderr is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def told(tell: Callable[[], RenderableType]) -> Iterator[None]:
    """Within the block, what `tell()` gives is at the bottom of the terminal, always as it is now.

    What the program prints appears above it. Does nothing where stderr is no terminal.
    """
    if not on_terminal():
        yield
        return
    _bottom.add(tell)
    try:
        yield
    finally:
        _bottom.remove(tell)
