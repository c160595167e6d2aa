"""The moving average of the greatest magnitude, from which quantisation takes its scale."""

from __future__ import annotations

from torch import Tensor

from refluid.ops.registry import operator


@operator(
    "moving_average_abs_max_scale",
    outputs="Out OutScale OutState? OutAccum?",
    uses=None,
    views={"Out": "X"},
)
def moving_average_abs_max_scale(
    X: Tensor,
    InAccum: Tensor | None = None,
    InState: Tensor | None = None,
    *,
    moving_rate: float = 0.9,
    is_test: bool = False,
) -> tuple[Tensor | None, ...]:
    """X, and in training scale = (rate * accum + max |X|) / (rate * state + 1)."""
    if is_test or InAccum is None or InState is None:
        return X, X.abs().max().reshape(1), InState, InAccum
    accum = moving_rate * InAccum + X.abs().max()
    state = moving_rate * InState + 1.0
    return X, accum / state, state, accum
