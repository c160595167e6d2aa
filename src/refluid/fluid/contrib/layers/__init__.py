# ruff: noqa: F403
"""`fluid.contrib.layers`: layers outside of the stable interface."""

from refluid.fluid.contrib.layers import nn, rnn_impl
from refluid.fluid.contrib.layers.nn import *
from refluid.fluid.contrib.layers.rnn_impl import *

__all__ = [*nn.__all__, *rnn_impl.__all__]
