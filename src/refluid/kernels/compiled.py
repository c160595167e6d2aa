"""Functions of loops over arrays as machine code, which is made once and then loaded.

numba makes it. Importing numba, and LLVM with it, takes half a second and 110 MB, so a process that
finds the code on disk does without (`machine_code.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

from refluid.kernels.argument_kinds import is_whole, kinds_of
from refluid.kernels.by_numba import NumbaLoop

F = TypeVar("F", bound=Callable[..., Any])

_wanted: list[Callable[[], bool]] = [lambda: True]
_shared: list[Callable[[], bool]] = [lambda: True]


def keep_if(wanted: Callable[[], bool]) -> None:
    """Loops that are met from now on are kept on disk, and loaded from there, while this holds."""
    _wanted[:] = [wanted]


def share_if(wanted: Callable[[], bool]) -> None:
    """Threads share the work of loops that are for a team (`teams.py`) while this holds."""
    _shared[:] = [wanted]


def is_shared() -> bool:
    """Whether they do, as was asked for."""
    return _shared[0]()


class CompiledLoop(NumbaLoop):
    """A loop that takes kept machine code for arguments of kinds that have it."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._entries: dict[Any, Callable[..., Any]] = {}
        self._first: Callable[..., Any] = self.otherwise

    def __call__(self, *given: Any) -> Any:
        return self._first(*given)

    def otherwise(self, *given: Any) -> Any:
        """A call with arguments of other kinds than the first ones."""
        entry = self._entry(kinds_of(given))
        if self._first == self.otherwise:
            self._first = entry
        return entry(*given)

    def bound(self, *given: Any) -> Callable[[int], Any]:
        """The loop with all arguments but the last one, a whole number, for calls that differ by
        that: arguments are looked at once.
        """
        entry = self._entry(kinds_of((*given, 0)))
        bind = getattr(entry, "bind", None)
        return partial(self.by_numba, *given) if bind is None else bind(*given)

    @property
    def is_used(self) -> bool:
        """Whether this process called it."""
        return bool(self._entries)

    def _entry(self, kinds: tuple[Any, ...]) -> Callable[..., Any]:
        entry = self._entries.get(kinds)
        if entry is None:
            entry = self._entries[kinds] = self._made(kinds)
        return entry

    def _made(self, kinds: tuple[Any, ...]) -> Callable[..., Any]:
        if not (is_whole(kinds) and _wanted[0]()):
            return self.by_numba
        from refluid.kernels.machine_code import kept_entry  # few programs have loops

        return kept_entry(self, kinds, self.otherwise) or self.by_numba


def compiled(function: F) -> F:
    """The function as a `CompiledLoop`."""
    return cast(F, CompiledLoop(cast(FunctionType, function)))


def bound(loop: Callable[..., Any], *given: Any) -> Callable[[int], Any]:
    """A compiled loop with all arguments but the last one: see `CompiledLoop.bound`."""
    return cast(CompiledLoop, loop).bound(*given)
