"""What is called before and after a layer's `forward`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def before(layer: Any, hooks: Mapping[int, Hook], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `forward` is given after the hooks that come before it."""
    for hook in [*hooks.values()]:
        changed = hook(layer, inputs)
        if changed is not None:
            inputs = changed if isinstance(changed, tuple) else (changed,)
    return inputs


def after(layer: Any, hooks: Mapping[int, Hook], inputs: tuple[Any, ...], outputs: Any) -> Any:
    """What a call gives after the hooks that come after `forward`."""
    for hook in [*hooks.values()]:
        changed = hook(layer, inputs, outputs)
        outputs = outputs if changed is None else changed
    return outputs
