"""prroi_pool: the exact mean of the bilinearly interpolated image over each bin."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ops.bounded import Boxes, Images, Positive, PositiveFloat
from refluid.ops.detection.rois import Taps, images_of, pool, span
from refluid.ops.detection.shapes import pooled
from refluid.ops.registry import operator


def _area(t: Tensor) -> Tensor:
    """The integral up to t of a pixel's weight, max(0, 1 - |u|)."""
    t = t.clamp(-1, 1)
    return torch.where(t < 0, 0.5 * (1 + t) ** 2, 1 - 0.5 * (1 - t) ** 2)


def _integrated(start: Tensor, step: Tensor, bins: int, size: int) -> Taps:
    """The integrals of the pixels' weights over each bin along one axis."""
    grid = torch.arange(bins, device=start.device, dtype=start.dtype)
    low = start[:, None] + grid * step[:, None]
    high = low + step[:, None]
    pixels, inside = span(low.detach().floor(), high.detach().ceil() + 1, size)
    weight = _area(high[..., None] - pixels) - _area(low[..., None] - pixels)
    return Taps(pixels, weight * inside)


@operator(
    "prroi_pool",
    outputs="Out",
    uses="X ROIs BatchRoINums Out",
    differentiable="X ROIs",
    lod="",
    infer=pooled(lambda op, channels: channels),
)
def prroi_pool(
    X: Images,
    ROIs: Boxes,
    BatchRoINums: Tensor | None = None,
    *,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
    lod_ROIs: Levels = (),
) -> Tensor:
    """The mean over each bin of X, interpolated, being 0 outside; 0 for a bin without area.

    It has a gradient for the RoIs too. BatchRoINums: the number of RoIs of each image, instead
    of a LoD.
    """
    image = images_of("prroi_pool", ROIs, lod_ROIs, X.shape[0], counts=BatchRoINums)
    box = ROIs * spatial_scale
    step = (box[:, 2:] - box[:, :2]).clamp(min=0)
    step = step / step.new_tensor([pooled_width, pooled_height])
    y = _integrated(box[:, 1], step[:, 1], pooled_height, X.shape[2])
    x = _integrated(box[:, 0], step[:, 0], pooled_width, X.shape[3])
    area = step.prod(1)[:, None, None, None]
    total = pool(X, image, y, x)
    return torch.where(area > 0, total / torch.where(area > 0, area, 1), 0)
