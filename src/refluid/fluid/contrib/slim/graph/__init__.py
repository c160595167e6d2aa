"""Programs as slim's strategies see them."""

from refluid.fluid.contrib.slim.graph.executor import SlimGraphExecutor
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper, VarWrapper

__all__ = ["GraphWrapper", "OpWrapper", "SlimGraphExecutor", "VarWrapper"]
