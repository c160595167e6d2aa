"""roi_pool: the largest pixel in each bin of a region. psroi_pool: the mean, by position."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.bounded import Boxes, Images, Positive, PositiveFloat
from refluid.ops.detection.rois import (
    Taps,
    add_up,
    away_from_zero,
    bins_of,
    images_of,
    pixel_rows,
    shared_out,
    span,
)
from refluid.ops.detection.shapes import pooled
from refluid.ops.registry import gradient, operator

_MAX = 2


def _covered(start: Tensor, extent: Tensor, bins: int, size: int) -> Taps:
    """The pixels that each bin touches along one axis, with weight 1."""
    step = shared_out(extent, bins)[:, None]
    grid = torch.arange(bins, device=start.device, dtype=start.dtype)
    first = torch.floor(grid * step + start[:, None])
    last = torch.ceil((grid + 1) * step + start[:, None])
    pixels, counts = span(first, last, size)
    return Taps(pixels, counts.to(start.dtype))


@operator(
    "roi_pool",
    outputs="Out Argmax",
    uses="X ROIs RoisLod Argmax",
    differentiable="X",
    lod="",
    infer=pooled(lambda op, channels: channels, ("Argmax", VarType.INT32)),
)
def roi_pool(
    X: Images,
    ROIs: Boxes,
    RoisLod: Tensor | None = None,
    *,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
    lod_ROIs: Levels = (),
) -> tuple[Tensor, Tensor]:
    """The largest pixel of each bin, 0 in an empty one, and its place in the channel (or -1).

    Corners of the RoIs are rounded to pixels of X; bins overlap where they share a pixel.
    """
    image = images_of("roi_pool", ROIs, lod_ROIs, X.shape[0], offsets=RoisLod)
    box = away_from_zero(ROIs * spatial_scale)
    extent = (box[:, 2:] - box[:, :2] + 1).clamp(min=1)
    y = _covered(box[:, 1], extent[:, 1], pooled_height, X.shape[2])
    x = _covered(box[:, 0], extent[:, 0], pooled_width, X.shape[3])
    index, weight = bins_of(image, y, x, X.shape)
    shape = (ROIs.shape[0], pooled_height, pooled_width, X.shape[1])
    used = (weight != 0).flatten(3)
    total = used.sum(3).reshape(-1)
    taken = index.flatten(3)[used]
    starts = total.cumsum(0) - total
    out, _, _, places = torch.embedding_bag(pixel_rows(X), taken, starts, mode=_MAX)
    empty = (total == 0)[:, None]
    places = (places % (X.shape[2] * X.shape[3])).masked_fill(empty, -1).int()
    out = out.masked_fill(empty, 0)
    return out.reshape(shape).permute(0, 3, 1, 2), places.reshape(shape).permute(0, 3, 1, 2)


@gradient("roi_pool")
def roi_pool_grad(
    X: Tensor,
    ROIs: Tensor,
    RoisLod: Tensor | None,
    Argmax: Tensor,
    d_Out: Tensor,
    *,
    lod_ROIs: Levels = (),
) -> Tensor:
    """d_Out added up at the places of the largest pixels."""
    image = images_of("roi_pool_grad", ROIs, lod_ROIs, X.shape[0], offsets=RoisLod)
    n, channels, height, width = X.shape
    channel = torch.arange(channels, device=X.device)[:, None, None]
    plane = (image[:, None, None, None] * channels + channel) * (height * width)
    found = Argmax >= 0
    out = X.new_zeros(n * channels * height * width)
    out.index_add_(0, (plane + Argmax)[found], d_Out[found])
    return out.reshape(X.shape)


@operator(
    "psroi_pool",
    outputs="Out",
    uses="X ROIs",
    differentiable="X",
    lod="",
    infer=pooled(lambda op, channels: int(op.attrs["output_channels"])),
)
def psroi_pool(
    X: Images,
    ROIs: Boxes,
    *,
    output_channels: int,
    spatial_scale: PositiveFloat = 1.0,
    pooled_height: Positive = 1,
    pooled_width: Positive = 1,
    lod_ROIs: Levels = (),
) -> Tensor:
    """The mean over each bin of the channels that are for this bin.

    X has output_channels * pooled_height * pooled_width channels, output_channels first. An empty
    bin is 0, and a region is at least 0.1 pixels wide and high.
    """
    if spatial_scale <= 0.0:
        raise EnforceNotMet(f"spatial_scale has to be greater than 0 but is {spatial_scale}")
    if X.shape[1] != output_channels * pooled_height * pooled_width:
        raise EnforceNotMet(
            f"X has {X.shape[1]} channels, but has to have output_channels * pooled_height * "
            f"pooled_width = {output_channels * pooled_height * pooled_width}"
        )
    image = images_of("psroi_pool", ROIs, lod_ROIs, X.shape[0])
    start = away_from_zero(ROIs[:, :2]) * spatial_scale
    end = (away_from_zero(ROIs[:, 2:]) + 1) * spatial_scale
    extent = (end - start).clamp(min=0.1)
    y = _covered(start[:, 1], extent[:, 1], pooled_height, X.shape[2])
    x = _covered(start[:, 0], extent[:, 0], pooled_width, X.shape[3])
    index, weight = bins_of(image, y, x, X.shape)
    bins = pooled_height * pooled_width
    rows = X.reshape(X.shape[0], output_channels, bins, -1).permute(0, 3, 2, 1)
    place = torch.arange(bins, device=X.device).reshape(pooled_height, pooled_width, 1)
    count = weight.flatten(3).sum(-1)
    total = add_up(
        rows.reshape(-1, output_channels), index.flatten(3) * bins + place, weight.flatten(3)
    )
    return (total / count.clamp(min=1)[..., None]).permute(0, 3, 1, 2)
