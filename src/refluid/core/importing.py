"""Imports of many modules at once."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_many(name: str) -> ModuleType:
    """Imports a module that imports hundreds, without looking for garbage meanwhile.

    Modules make few cycles, but so many objects that Python goes through all of torch's several
    times while hundreds are imported: a third of the time.
    """
    from refluid.kernels.collecting import without_collections  # `import paddle.fluid` is light

    with without_collections():
        return importlib.import_module(name)
