# ruff: noqa: F403
"""`fluid.contrib`: what is outside of the stable interface."""

from refluid.fluid.contrib import extend_optimizer, layers
from refluid.fluid.contrib.extend_optimizer import extend_with_decoupled_weight_decay
from refluid.fluid.contrib.layers import *

__all__ = ["extend_optimizer", "extend_with_decoupled_weight_decay", *layers.__all__]
