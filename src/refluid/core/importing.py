"""Imports of many modules at once."""

from __future__ import annotations

import gc
import importlib
from types import ModuleType


def import_many(name: str) -> ModuleType:
    """Imports a module that imports hundreds, without looking for garbage meanwhile.

    Modules make few cycles, but so many objects that Python goes through all of torch's several
    times while hundreds are imported: a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if was_enabled:
            gc.enable()
