# ruff: noqa: F403
"""`fluid.contrib.layers`: layers outside of the stable interface."""

from refluid.fluid.contrib.layers import nn
from refluid.fluid.contrib.layers.nn import *

__all__ = [*nn.__all__]
