"""Attributes with bounds, and inputs with ranks, that several operators have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from torch import Tensor

from refluid.ir.checks import Check, above, between, each, not_empty, rank, shaped

Epsilon = Annotated[float, between(0.0, 0.001)]
Probability = Annotated[float, between(0.0, 1.0)]
# Of a gradient operator.
Training = Annotated[
    bool, Check("False: what was built with is_test=True has no gradient", lambda value: not value)
]
# (N, C), or with up to three dimensions of places.
Channels = Annotated[Tensor, rank(2, 3, 4, 5)]
Images = Annotated[Tensor, rank(4)]
Volumes = Annotated[Tensor, rank(5)]
Column = Annotated[Tensor, Check("(N, 1)", lambda shape: len(shape) == 2 and shape[1] in (1, -1))]
Vector = Annotated[Tensor, rank(1)]
Matrix = Annotated[Tensor, rank(2)]
# x1, y1, x2, y2.
Boxes = Annotated[Tensor, shaped(None, 4)]
MaybeBoxes = Annotated[Tensor | None, shaped(None, 4)]
# (rows, boxes, numbers): boxes, or polygons of 4, 8, 12 or 16 corners.
Outlines = Annotated[
    Tensor,
    Check(
        "of 3 dimensions, the last of 4, 8, 16, 24 or 32",
        lambda shape: len(shape) == 3 and (shape[2] in (4, 8, 16, 24, 32) or shape[2] < 0),
    ),
]
# Height, width and scale of images.
ImageSizes = Annotated[Tensor, shaped(None, 3)]
Pairs = Annotated[
    Sequence[int], not_empty, Check("an even number of values", lambda values: len(values) % 2 == 0)
]
Positive = Annotated[int, above(0)]
PositiveFloat = Annotated[float, above(0.0)]
Variances = Annotated[Sequence[float], each(above(0.0), 4)]
