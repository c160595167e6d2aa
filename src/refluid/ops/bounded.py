"""Attributes with bounds, and inputs with ranks, that several operators have."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor

from refluid.ir.checks import Check, between, rank

Epsilon = Annotated[float, between(0.0, 0.001)]
Probability = Annotated[float, between(0.0, 1.0)]
# Of a gradient operator.
Training = Annotated[
    bool, Check("False: what was built with is_test=True has no gradient", lambda value: not value)
]
# (N, C), or with up to three dimensions of places.
Channels = Annotated[Tensor, rank(2, 3, 4, 5)]
Images = Annotated[Tensor, rank(4)]
Column = Annotated[Tensor, Check("(N, 1)", lambda shape: len(shape) == 2 and shape[1] in (1, -1))]
