"""What turns labels into targets, and the dice loss that works on them."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: Any = "float32",
    name: str | None = None,
) -> Variable:
    """(1 - epsilon) label + epsilon prior, the prior being uniform unless given as (1, classes).

    label: one-hot (..., classes). ValueError for an epsilon outside [0, 1].
    """
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"label_smooth: epsilon must be between 0 and 1, not {epsilon}")
    label.stop_gradient = True
    inputs = {"X": label} | ({} if prior_dist is None else {"PriorDist": prior_dist})
    return op("label_smooth", inputs, {"epsilon": float(epsilon)}, dtype=dtype, name=name)
