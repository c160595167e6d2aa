"""Fleets whose workers have stages or parts of a network each, for tests of checkpoints."""

from __future__ import annotations

from typing import Any

import refluid.fluid as fluid
from refluid.paddle import distributed
from refluid.paddle.distributed import fleet

PARTS = 2
_PARTS = {
    "tensor_parallel": True,
    "tensor_parallel_configs": {"tensor_parallel_degree": PARTS, "tensor_init_seed": 3},
}
# Kind: fields of the strategy.
FLEETS: dict[str, dict[str, Any]] = {
    "stages": {"pipeline": True, "pipeline_configs": {"accumulate_steps": 2}},
    "parts": _PARTS,
    "parts and shares": {**_PARTS, "sharding": True, "sharding_configs": {"stage": 2}},
}


def fleet_network(kind: str) -> Any:
    """The loss; with dropout, batch norm, a schedule and moments."""
    strategy = fleet.DistributedStrategy()
    for name, value in FLEETS[kind].items():
        setattr(strategy, name, value)
    fleet.init(is_collective=True, strategy=strategy)
    x = fluid.data("x", [None, 6], "float32")
    with fluid.device_guard("gpu:0"):
        hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 8, act="tanh"))
        hidden = fluid.layers.dropout(hidden, 0.3)
    with fluid.device_guard("gpu:1"):
        y = fluid.data("y", [None, 1], "float32")
        if "parts" in kind:
            split = {"operation": "linear", "num_partitions": PARTS}
            hidden = distributed.split(hidden, (8, 8), axis=1, gather_out=False, **split)
            hidden = distributed.split(fluid.layers.relu(hidden), (8, 8), axis=0, **split)
        out = fluid.layers.fc(hidden, 1)
        loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))
    rate = fluid.layers.exponential_decay(0.05, 2, 0.8, staircase=True)
    fleet.distributed_optimizer(fluid.optimizer.Adam(rate)).minimize(loss)
    return loss
