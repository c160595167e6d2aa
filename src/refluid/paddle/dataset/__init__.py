"""`paddle.dataset`: readers of well-known data sets, with Fluid's samples.

Files are read from Fluid's cache folder (`~/.cache/paddle/dataset`, or `$PADDLE_HOME/dataset`) in
their original formats. docs/data.md says which files, and what packages carry.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

# What a first use imports, by name.
__all__ = sorted(module.name for module in pkgutil.iter_modules(__path__))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
