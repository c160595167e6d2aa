"""Hooks that see a tensor's gradient, for who gives it one without autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor


def has_hooks(value: Tensor) -> bool:
    """Whether a hook is to see the gradient of a tensor."""
    return bool(value._backward_hooks)


def hooked(value: Tensor, gradient: Tensor) -> Tensor:
    """What the hooks of a tensor make of its gradient."""
    hooks: dict[int, Callable[[Tensor], Any]] = value._backward_hooks or {}
    for hook in list(hooks.values()):
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient
