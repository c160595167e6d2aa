"""What is called before and after a layer's `forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Hook = Callable[..., Any]


class HookRemoveHelper:
    """Takes a hook out again."""

    next_hook_id = 0

    def __init__(self, hooks: dict[int, Hook]) -> None:
        self._hooks = hooks
        self._hook_id = HookRemoveHelper.next_hook_id
        HookRemoveHelper.next_hook_id += 1

    def remove(self) -> None:
        """The hook is called no more."""
        self._hooks.pop(self._hook_id, None)


def added(hooks: dict[int, Hook], hook: Hook) -> HookRemoveHelper:
    """Adds a hook to others."""
    helper = HookRemoveHelper(hooks)
    hooks[helper._hook_id] = hook
    return helper
