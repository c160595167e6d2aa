"""Boxes (x1, y1, x2, y2) of whole pixels: both corners belong to the box, x2 - x1 + 1 is wide."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.ops.detection.overlaps import sides

_LARGEST_SCALE = math.log(1000.0 / 16.0)


def encoded(boxes: Tensor, targets: Tensor, weights: Sequence[float] = (1, 1, 1, 1)) -> Tensor:
    """How `targets` are reached from `boxes` (P, 4): (dx, dy, log dw, log dh) / weights."""
    (width, height), (wide, high) = sides(boxes, False), sides(targets, False)
    dx = (targets[:, 0] + 0.5 * wide - boxes[:, 0] - 0.5 * width) / width
    dy = (targets[:, 1] + 0.5 * high - boxes[:, 1] - 0.5 * height) / height
    deltas = torch.stack([dx, dy, torch.log(wide / width), torch.log(high / height)], -1)
    return deltas / deltas.new_tensor(list(weights))


def decoded(boxes: Tensor, deltas: Tensor, *, normalized: bool = False) -> Tensor:
    """The boxes that `deltas` (..., 4) lead to from `boxes`; scales are limited to 1000 / 16.

    normalized: x2 - x1 is wide.
    """
    width, height = sides(boxes, normalized)
    x = deltas[..., 0] * width + (boxes[..., 0] + 0.5 * width)
    y = deltas[..., 1] * height + (boxes[..., 1] + 0.5 * height)
    half_wide = 0.5 * torch.exp(deltas[..., 2].clamp(max=_LARGEST_SCALE)) * width
    half_high = 0.5 * torch.exp(deltas[..., 3].clamp(max=_LARGEST_SCALE)) * height
    less = 0 if normalized else 1
    last = x + half_wide - less, y + half_high - less
    return torch.stack([x - half_wide, y - half_high, *last], -1)


def clipped(boxes: Tensor, height: Tensor, width: Tensor, *, normalized: bool = False) -> Tensor:
    """`boxes` (..., 4) inside images of that size."""
    limit = torch.stack([width, height, width, height], -1) - (0 if normalized else 1)
    return torch.minimum(boxes, limit).clamp(min=0)
