"""What a trainer with a layer of its own does to begin as the others."""

from __future__ import annotations

import numpy as np

import refluid.fluid as fluid
from refluid.fluid.dygraph import parallel_helper


def broadcast_own() -> tuple[bool, bool, list[list[float]]]:
    """Whether it trains with others, before it joined them and then; parameters it begins with."""
    with fluid.dygraph.guard():
        before = parallel_helper._is_data_parallel_mode()
        rank = fluid.dygraph.prepare_context().local_rank
        layer = fluid.dygraph.Linear(2, 2)
        for param in layer.parameters():
            param.set_value(np.full(param.shape, 1.0 + rank, "float32"))
        parallel_helper._broadcast_parameters(layer._parameters.values())
        after = parallel_helper._is_data_parallel_mode()
        return before, after, [one.numpy().ravel().tolist() for one in layer.parameters()]
