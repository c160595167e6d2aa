"""`fluid.incubate.fleet.parameter_server.distribute_transpiler`: the fleet with servers.

fleet.init(role_maker.PaddleCloudRoleMaker())
fleet.distributed_optimizer(optimizer, StrategyFactory.create_async_strategy()).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    executor.run(fleet.startup_program)
    executor.run(fleet.main_program, feed=..., fetch_list=[loss])
    fleet.stop_worker()
"""

from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy,
    distributed_strategy_factory,
)
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (  # noqa: E501
    StrategyFactory,
)
from refluid.fluid.incubate.fleet.parameter_server.distribute_transpiler.workers import (
    DistributedTranspiler,
    TranspilerOptimizer,
    fleet,
)
from refluid.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

__all__ = [
    "DistributeTranspilerConfig",
    "DistributedTranspiler",
    "StrategyFactory",
    "TranspilerOptimizer",
    "distributed_strategy",
    "distributed_strategy_factory",
    "fleet",
]
