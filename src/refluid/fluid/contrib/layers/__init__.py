# ruff: noqa: F403
"""`fluid.contrib.layers`: layers outside of the stable interface."""

from refluid.core.causes import guard
from refluid.fluid.contrib.layers import metric_op, nn, rnn_impl
from refluid.fluid.contrib.layers.metric_op import *
from refluid.fluid.contrib.layers.nn import *
from refluid.fluid.contrib.layers.rnn_impl import *

__all__ = [*metric_op.__all__, *nn.__all__, *rnn_impl.__all__]

for _module in (metric_op, nn, rnn_impl):
    guard(_module.__all__, vars(_module), globals())
