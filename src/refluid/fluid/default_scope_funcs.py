"""A stack of scopes for each thread: functions on variables of the innermost one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from refluid.core.scope import Cell, Scope

__all__ = [
    "enter_local_scope",
    "find_var",
    "get_cur_scope",
    "leave_local_scope",
    "scoped_function",
    "var",
]

_stacks = threading.local()


def _scopes() -> list[Scope]:
    if not hasattr(_stacks, "scopes"):
        _stacks.scopes = [Scope()]
    scopes: list[Scope] = _stacks.scopes
    return scopes


def get_cur_scope() -> Scope:
    """The innermost scope of this thread."""
    return _scopes()[-1]


def enter_local_scope() -> None:
    """Opens a scope within the current one."""
    _scopes().append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Closes the innermost scope: its variables are gone. IndexError for the outermost."""
    if len(_scopes()) == 1:
        raise IndexError("leave_local_scope without enter_local_scope")
    _scopes().pop()
    get_cur_scope().drop_kids()


def var(name: str) -> Cell:
    """The variable of the current scope, made where it is new."""
    return get_cur_scope().var(name)


def find_var(name: str) -> Cell | None:
    """The variable of the current scope or one around it."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], Any]) -> None:
    """Calls a function with a scope of its own."""
    enter_local_scope()
    try:
        func()
    finally:
        leave_local_scope()
