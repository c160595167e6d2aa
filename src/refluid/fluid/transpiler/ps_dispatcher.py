"""Which parameter server holds which variable."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

__all__ = ["HashName", "PSDispatcher", "RoundRobin"]


class PSDispatcher:
    """Deals variables to servers. pserver_endpoints: the servers, as `host:port`."""

    def __init__(self, pserver_endpoints: Sequence[str]) -> None:
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The servers."""
        return self._eps

    def reset(self) -> None:
        """Starts with the first server again."""
        self._step = 0

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        """The server of each variable."""
        raise NotImplementedError(f"{type(self).__name__} doesn't say which server has a variable")


class HashName(PSDispatcher):
    """By the name of a variable: the same one in every process."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        return [self._eps[zlib.crc32(_name(var).encode()) % len(self._eps)] for var in varlist]


class RoundRobin(PSDispatcher):
    """One after the other, going on where the last call stopped."""

    def dispatch(self, varlist: Sequence[Any]) -> list[str]:
        first = self._step
        self._step = (first + len(varlist)) % len(self._eps)
        return [self._eps[(first + number) % len(self._eps)] for number in range(len(varlist))]


def _name(var: Any) -> str:
    name = var.name
    return str(name() if callable(name) else name)
