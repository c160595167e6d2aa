"""Running sums of parameters, from which model averages are taken."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from refluid.kernels import lists
from refluid.ops.registry import many, operator
from refluid.ops.signature import Long

_KEPT = ("sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates")
# So many parameters are added up in sum_1 before it moves to sum_2: a longer sum rounds badly.
_AT_ONCE = 16384
Tensors = list[Tensor]


@operator(
    "average_accumulates",
    outputs=" ".join(f"out_{name}" for name in _KEPT),
    uses=None,
    lod="",
    mutates={f"out_{name}": f"in_{name}" for name in _KEPT},
)
def average_accumulates(
    param: Tensor,
    in_sum_1: Tensor,
    in_sum_2: Tensor,
    in_sum_3: Tensor,
    in_num_accumulates: Tensor,
    in_old_num_accumulates: Tensor,
    in_num_updates: Tensor,
    *,
    average_window: float = 0.0,
    max_average_window: Long,
    min_average_window: Long = 10000,
) -> tuple[Tensor, ...]:
    """Adds param to sum_1 and counts it.

    Once as many are in as the window takes (average_window of all updates as a whole number,
    between the two bounds), the sums move to sum_3 and a new window begins.
    """
    kept = (
        in_sum_1,
        in_sum_2,
        in_sum_3,
        in_num_accumulates,
        in_old_num_accumulates,
        in_num_updates,
    )
    average_accumulates_many(
        [param],
        *([one] for one in kept),
        average_window=average_window,
        max_average_window=max_average_window,
        min_average_window=min_average_window,
    )
    return kept


@many("average_accumulates")
def average_accumulates_many(
    param: Tensors,
    in_sum_1: Tensors,
    in_sum_2: Tensors,
    in_sum_3: Tensors,
    in_num_accumulates: Tensors,
    in_old_num_accumulates: Tensors,
    in_num_updates: Tensors,
    *,
    average_window: float = 0.0,
    max_average_window: Long,
    min_average_window: Long = 10000,
) -> None:
    """`average_accumulates` of many parameters; their counters are read all at once."""
    lists.add_(in_num_updates, 1)
    lists.add_(in_num_accumulates, 1)
    lists.add_(in_sum_1, param)
    counts = torch.stack([torch.cat(in_num_accumulates), torch.cat(in_num_updates)], 1).tolist()
    for i, (held, updates) in enumerate(counts):
        if updates % _AT_ONCE == 0:
            in_sum_2[i].add_(in_sum_1[i])
            in_sum_1[i].zero_()
        window = min(max_average_window, int(np.float32(updates) * np.float32(average_window)))
        if held >= min_average_window and held >= window:
            torch.add(in_sum_1[i], in_sum_2[i], out=in_sum_3[i])
            in_sum_1[i].zero_()
            in_sum_2[i].zero_()
            in_old_num_accumulates[i].copy_(in_num_accumulates[i])
            in_num_accumulates[i].zero_()
