"""`DistributedStrategyFactory`: what the guides call `StrategyFactory`."""

from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (  # noqa: E501
    StrategyFactory as DistributedStrategyFactory,
)

__all__ = ["DistributedStrategyFactory"]
