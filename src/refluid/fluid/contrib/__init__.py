# ruff: noqa: F403
"""`fluid.contrib`: what is outside of the stable interface."""

from refluid.fluid.contrib import layers
from refluid.fluid.contrib.layers import *

__all__ = [*layers.__all__]
