"""`paddle.distributed.fleet`: workers that train together, as Paddle 2 has them.

from paddle.distributed import fleet

fleet.init(is_collective=True, strategy=fleet.DistributedStrategy())
fleet.distributed_optimizer(optimizer).minimize(loss)
"""

from refluid.core.lazy_package import make_lazy

make_lazy(__name__, "refluid.paddle.distributed.fleet.public")
