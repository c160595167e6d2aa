# ruff: noqa: F403
"""The layers of `fluid.contrib.layers.nn`, which live in one file per topic."""

from refluid.fluid.contrib.layers import detection, sequences
from refluid.fluid.contrib.layers.detection import *
from refluid.fluid.contrib.layers.sequences import *

__all__ = [*detection.__all__, *sequences.__all__]
