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
_checker: Any = None


def switch(
    new_generator: UniqueNameGenerator | tuple[UniqueNameGenerator, Any] | None = None,
    new_para_name_checker: Any = None,
) -> tuple[UniqueNameGenerator, Any]:
    """Replaces the generator of names, by a fresh one when none is given; gives both former ones.

    The pair may be given back as it is. Checkers of parameters' names do nothing here.
    """
    global _checker
    if isinstance(new_generator, tuple):
        new_generator, new_para_name_checker = new_generator
    former, _checker = _checker, new_para_name_checker
    return names.switch(new_generator), former


def __getattr__(name: str) -> Any:
    if name == "generator":  # another one within a guard
        return names.current()
    raise AttributeError(f"fluid.unique_name has no {name!r}")
