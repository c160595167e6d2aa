"""roi_align: the mean of bilinear samples in each bin of a region."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ops.bounded import Boxes, Images, Positive, PositiveFloat
from refluid.ops.detection.rois import Taps, images_of, pool, shared_out
from refluid.ops.detection.shapes import pooled
from refluid.ops.registry import operator


def _sampled(start: Tensor, extent: Tensor, bins: int, ratio: int, size: int) -> Taps:
    """Weights of the pixels along one axis: bilinear ones, averaged over a bin's samples."""
    step = shared_out(extent, bins)
    count = torch.full_like(step, ratio) if ratio > 0 else torch.ceil(step)
    most = _largest(count) if count.numel() else 1
    sample = torch.arange(most, device=start.device, dtype=start.dtype)
    grid = torch.arange(bins, device=start.device, dtype=start.dtype)
    at = start[:, None, None] + grid[:, None] * step[:, None, None]
    at = at + (sample + 0.5) * (step / count)[:, None, None]
    real = sample < count[:, None, None]
    inside = real & (at >= -1) & (at <= size)
    at = torch.where(real, at, at[..., :1]).clamp(0, size - 1)
    low, high = at.amin(-1).floor(), at.amax(-1).floor()
    reach = _largest(high - low) + 2 if low.numel() else 1
    pixels = low[..., None] + torch.arange(reach, device=start.device, dtype=start.dtype)
    share = (1 - (pixels[..., None] - at[:, :, None, :]).abs()).clamp(min=0)
    weight = (share * inside[:, :, None, :]).sum(-1) / count[:, None, None]
    beyond = pixels > size - 1
    return Taps(pixels.clamp(max=size - 1).long(), weight.masked_fill(beyond, 0))


def _largest(numbers: Tensor) -> int:
    found = float(numbers.max())
    if not math.isfinite(found):
        raise ValueError("corners of ROIs are NaN or infinite: what computed them has diverged")
    return int(found)


def means_of_samples(
    X: Tensor, image: Tensor, start: Tensor, extent: Tensor, bins: tuple[int, int], ratio: int
) -> Tensor:
    """The bins (height, width) of regions that begin at `start` (R, 2) and are `extent` (R, 2)."""
    y = _sampled(start[:, 1], extent[:, 1], bins[0], ratio, X.shape[2])
    x = _sampled(start[:, 0], extent[:, 0], bins[1], ratio, X.shape[3])
    return pool(X, image, y, x)


@operator(
    "roi_align",
    outputs="Out",
    uses="X ROIs RoisLod",
    differentiable="X",
    lod="",
    infer=pooled(lambda op, channels: channels),
)
def roi_align(
    X: Images,
    ROIs: Boxes,
    RoisLod: Tensor | None = None,
    *,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
    sampling_ratio: int = -1,
    lod_ROIs: Levels = (),
) -> Tensor:
    """Each RoI (x1, y1, x2, y2) of X (N, C, H, W) as (C, pooled_height, pooled_width).

    A bin is the mean of `sampling_ratio` x `sampling_ratio` bilinear samples; of as many as it
    has pixels where that is not positive. A region is at least one pixel of X wide and high.
    """
    image = images_of("roi_align", ROIs, lod_ROIs, X.shape[0], offsets=RoisLod)
    box = ROIs.detach() * spatial_scale
    extent = (box[:, 2:] - box[:, :2]).clamp(min=1)
    bins = pooled_height, pooled_width
    return means_of_samples(X, image, box[:, :2], extent, bins, sampling_ratio)
