"""Options of compiled programs by which several processes train as one."""

from __future__ import annotations

import itertools
from typing import Any

import refluid.fluid as fluid

REDUCE = {"reduce_strategy": fluid.BuildStrategy.ReduceStrategy.Reduce}
HIERARCHICAL = {
    "use_hierarchical_allreduce": True,
    "hierarchical_allreduce_inter_nranks": 2,
    "nccl_comm_num": 2,
}
# name: the optimizer, options, places of each process, whether a table has sparse gradients.
CASES: dict[str, tuple[str, dict[str, Any], int, bool]] = {
    "plain": ("momentum", {}, 1, False),
    "one by one": ("momentum", {"fuse_all_reduce_ops": False}, 1, True),
    "reduce": ("adam", REDUCE, 1, False),
    "two places": ("adam", {}, 2, True),
    "two places, reduce": ("adam", REDUCE, 2, False),
    "hierarchical": ("momentum", HIERARCHICAL, 1, True),
}
_TOGETHER = {
    "reduce": REDUCE,
    "hierarchical": HIERARCHICAL,
    "one by one": {"fuse_all_reduce_ops": False},
}
# Every two of them, by one place and by two.
CASES |= {
    f"{' and '.join(pair)}, {places}": (
        "adam",
        {**_TOGETHER[pair[0]], **_TOGETHER[pair[1]]},
        places,
        places == 2,
    )
    for pair in itertools.combinations(_TOGETHER, 2)
    for places in (1, 2)
}
