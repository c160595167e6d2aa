"""`fluid.incubate.fleet.collective`: workers that train together by exchanging gradients.

from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet

fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
fleet.distributed_optimizer(optimizer, strategy=DistributedStrategy()).minimize(loss)
executor.run(fleet.main_program, feed=..., fetch_list=[loss])
"""

from refluid.fluid.incubate.fleet.collective.checkpoints import TrainStatus
from refluid.fluid.incubate.fleet.collective.optimizers import (
    CollectiveOpBasedOptimizer,
    CollectiveOptimizer,
)
from refluid.fluid.incubate.fleet.collective.strategy import (
    DistFCConfig,
    DistributedStrategy,
    LambConfig,
)
from refluid.fluid.incubate.fleet.collective.workers import Collective, fleet

__all__ = [
    "Collective",
    "CollectiveOpBasedOptimizer",
    "CollectiveOptimizer",
    "DistFCConfig",
    "DistributedStrategy",
    "LambConfig",
    "TrainStatus",
    "fleet",
]
