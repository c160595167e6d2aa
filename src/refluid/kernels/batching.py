"""`torch.func.vmap` by its rules alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from refluid.kernels.parts import part

_IS_ENABLED = part("torch._C._functorch._is_vmap_fallback_enabled", None)
_ENABLE = part("torch._C._functorch._set_vmap_fallback_enabled", None)


@contextmanager
def by_rules_only() -> Iterator[None]:
    """Within the block vmap raises RuntimeError for a kernel that it has no rule for."""
    if _IS_ENABLED is None or _ENABLE is None:
        yield
        return
    before = _IS_ENABLED()
    try:
        _ENABLE(False)
        yield
    finally:
        _ENABLE(before)
