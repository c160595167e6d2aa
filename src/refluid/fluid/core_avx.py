"""`fluid.core_avx`: what Fluid calls its C++ part, all of which is `fluid.core` here."""

from refluid.fluid import core as _core
from refluid.fluid.core import *  # noqa: F403

__all__ = _core.__all__
