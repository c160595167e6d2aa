"""`fluid.core_avx`: what Fluid calls its C++ part, all of which is `fluid.core` here."""

from typing import Any

from refluid.fluid import core
from refluid.fluid.core import *  # noqa: F403

__all__ = core.__all__


def __getattr__(name: str) -> Any:
    return getattr(core, name)
