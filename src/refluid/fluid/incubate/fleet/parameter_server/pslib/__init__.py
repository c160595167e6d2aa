"""`fluid.incubate.fleet.parameter_server.pslib`: scripts written for pslib, on refluid's servers.

fleet.init(role_maker)                      # MPISymetricRoleMaker where none is given
optimizer = fleet.distributed_optimizer(fluid.optimizer.Adam(1e-3), strategy={"use_cvm": False})
optimizer.minimize(loss)
if fleet.is_server():
    fleet.run_server()
else:
    executor.run(fluid.default_startup_program())
    fleet.init_worker()
    executor.train_from_dataset(fluid.default_main_program(), dataset)
    fleet.save_model("model")               # all workers
    fleet.stop_worker()
"""

from refluid.fluid.incubate.fleet.parameter_server.pslib.workers import (
    DownpourOptimizer,
    PSLib,
    fleet,
    fleet_embedding,
)

__all__ = ["DownpourOptimizer", "PSLib", "fleet", "fleet_embedding"]
