"""Unique names for variables and layers: `fc_0`, `fc_1`, ...

Every layer call takes the next number of its kind. Two programs that are to have the same
parameter names (training and inference built one after the other) are each built in a `guard`.
"""

from __future__ import annotations

from typing import Any

from refluid.core import names
from refluid.core.names import UniqueNameGenerator, generate, guard

__all__ = ["UniqueNameGenerator", "generate", "guard", "switch"]

data_loader_unique_name_generator = UniqueNameGenerator()
# Outside of dygraph all keys count.
generate_with_ignorable_key = generate


def switch(
    new_generator: UniqueNameGenerator | None = None, new_para_name_checker: Any = None
) -> UniqueNameGenerator:
    """Replaces the current generator, by a fresh one when none is given; returns the former.

    `new_para_name_checker` belongs to dygraph and has no effect here.
    """
    return names.switch(new_generator)


def __getattr__(name: str) -> Any:
    if name == "generator":  # another one within a guard
        return names.current()
    raise AttributeError(f"fluid.unique_name has no {name!r}")
