"""What surrounds a layer call: the name scope and the device its operators are marked with."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class _NameScope:
    """A scope and how often each name was used in it: `a`, `a_1`, `a_2`, ..."""

    def __init__(self, path: str = "/") -> None:
        self.path = path
        self.uses: defaultdict[str, int] = defaultdict(int)

    def child(self, prefix: str) -> _NameScope:
        number = self.uses[prefix]
        self.uses[prefix] += 1
        name = f"{prefix}_{number}" if number else prefix
        return _NameScope(f"{self.path}{name}/")


_scope = _NameScope()
_device = ""


def current_name_scope() -> str:
    """Path of the innermost name scope, `/` outside of any."""
    return _scope.path


def current_device() -> str:
    """Device that operators are marked with, empty for the executor's."""
    return _device


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Operators made within the block carry `/prefix/` in their `op_namescope`.

    Raises ValueError for a prefix that is empty or holds other characters than letters,
    digits, `_`, `.`, `-`, `@` and `/`.
    """
    global _scope
    if not prefix or not re.fullmatch(r"[\w./@-]+", prefix):
        raise ValueError(f"name_scope needs a prefix of letters and digits, not {prefix!r}")
    former = _scope
    _scope = former.child(prefix)
    try:
        yield
    finally:
        _scope = former


def reset_name_scopes() -> None:
    """Counts name scopes from zero again."""
    global _scope
    _scope = _NameScope()


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Operators made within the block carry `cpu` or `gpu[:N]` in their `op_device`.

    Raises ValueError for other devices.
    """
    global _device
    if (device or "").split(":")[0] not in ("", "cpu", "gpu"):
        raise ValueError(
            f"The Attr(device) should be 'cpu' or 'gpu', and it can also be empty, not {device!r}"
        )
    former, _device = _device, device or ""
    try:
        yield
    finally:
        _device = former
