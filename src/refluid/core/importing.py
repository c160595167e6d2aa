"""Imports of many modules at once."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

from refluid.kernels.parts import SHAPE_RULES, part


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Modules make few cycles, but so many objects that Python goes through all of torch's

    several times while hundreds are imported: a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def import_many(name: str) -> ModuleType:
    """Imports a module that imports hundreds, without looking for garbage meanwhile."""
    with _without_collecting():
        return importlib.import_module(name)


@cache
def import_shape_rules() -> None:
    """What torch infers shapes with, which it would import at the first of them."""
    with _without_collecting():
        part(SHAPE_RULES, None)
