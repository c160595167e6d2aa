"""All parameters there are: what an optimizer of Fluid 1.5 and 1.6 trains, which is given none.

Since 1.7 that is an error, and stays one in scripts whose layers are made as since then.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

_living: WeakValueDictionary[int, Any] = WeakValueDictionary()
_numbers = count()
_former_layers = 0


def note(parameter: Any) -> None:
    """A parameter was made."""
    _living[next(_numbers)] = parameter


def note_former_layer() -> None:
    """A layer was made as Fluid 1.5 and 1.6 had it."""
    global _former_layers
    _former_layers += 1


def with_gradients() -> list[Any] | None:
    """Those that have gradients, first made first; None where no layer was made as formerly."""
    if not _former_layers:
        return None
    return [one for _, one in sorted(_living.items()) if one.gradient_value is not None]
