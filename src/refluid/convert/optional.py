"""Libraries that only some conversions need."""

from __future__ import annotations

import importlib
from typing import Any

from refluid.core.errors import EnforceNotMet


def require(name: str) -> Any:
    """An optional library; EnforceNotMet that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EnforceNotMet(
            f"this needs {error.name}, which isn't installed: pip install 'refluid[convert]'"
        ) from error
