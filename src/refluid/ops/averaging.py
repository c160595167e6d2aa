"""Running sums of parameters, from which model averages are taken."""

from __future__ import annotations

from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.signature import Long

_KEPT = ("sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates")


@operator(
    "average_accumulates",
    outputs=" ".join(f"out_{name}" for name in _KEPT),
    uses=None,
    lod="",
    effects=True,
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

    Once as many are in as the window takes (average_window of all updates, between the two
    bounds), the sums move to sum_3 and a new window begins.
    """
    sums = in_sum_1, in_sum_2, in_sum_3
    counts = in_num_accumulates, in_old_num_accumulates, in_num_updates
    if param.is_meta:
        return *sums, *counts
    in_num_updates += 1
    in_num_accumulates += 1
    in_sum_1 += param
    count = int(in_num_accumulates)
    window = min(max_average_window, int(in_num_updates) * average_window)
    if count >= min_average_window and count >= window:
        in_sum_3.copy_(in_sum_1 + in_sum_2)
        in_sum_1.zero_()
        in_sum_2.zero_()
        in_old_num_accumulates.copy_(in_num_accumulates)
        in_num_accumulates.zero_()
    return *sums, *counts
