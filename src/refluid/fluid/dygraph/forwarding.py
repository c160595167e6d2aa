"""What a layer calls while a declarative function's program is built: its `forward` translated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.build import backend


def while_building(forward: Callable[..., Any]) -> Callable[..., Any]:
    """What is called for `forward`: a declarative function's program has it translated."""
    callee = getattr(backend(), "callee", None)
    return forward if callee is None else callee(forward)
