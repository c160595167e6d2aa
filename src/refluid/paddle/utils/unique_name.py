"""`paddle.utils.unique_name`: Fluid's, whose `switch` gives two values since Paddle 2."""

from __future__ import annotations

from typing import Any

from refluid.core import names
from refluid.core.names import UniqueNameGenerator, generate, guard

__all__ = ["generate", "guard", "switch"]


def switch(
    new_generator: UniqueNameGenerator | None = None, new_para_name_checker: Any = None
) -> tuple[UniqueNameGenerator, Any]:
    """Replaces the generator of names, by a fresh one unless given; (the former, its checker).

    Checkers of parameters' names do nothing here.
    """
    return names.switch(new_generator), new_para_name_checker
