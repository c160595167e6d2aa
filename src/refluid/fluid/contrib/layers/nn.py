# ruff: noqa: F403
"""The layers of `fluid.contrib.layers.nn`, which live in one file per topic."""

from refluid.fluid.contrib.layers import sequences
from refluid.fluid.contrib.layers.sequences import *

__all__ = [*sequences.__all__]
