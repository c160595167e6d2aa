"""Where `append_op` of a block puts an operator that doesn't go into the block.

While operators run at once, so do those that scripts append. `refluid.build`, which knows, provides
the function when imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Takes = Callable[..., Any]


def _nowhere() -> Takes | None:
    return None


_find: Callable[[], Takes | None] = _nowhere


def provide(find: Callable[[], Takes | None]) -> None:
    """find: gives what takes the operators at the moment; None where blocks do."""
    global _find
    _find = find


def takes_operators() -> Takes | None:
    """What takes the arguments of `append_op` instead of the block; None where the block does."""
    return _find()
