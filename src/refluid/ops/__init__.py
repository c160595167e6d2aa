"""The operators. Every module of this package is imported, so a new family is found by itself.

All but `*_kernel`: compiled code for some of them, imported when it is first needed, with numba.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.endswith("_kernel"):
        importlib.import_module(f"{__name__}.{_module.name}")
