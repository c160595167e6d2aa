"""What pooling of regions has in common: whose image a region is in, and sums over its pixels.

A pooled value is a weighted sum of pixels, and its weights are a product of weights along the
height and along the width. So a pool says, per axis, which pixels a bin takes and how much
(`Taps`), and `pool` adds up the pixels, each a row of channels, with one `embedding_bag`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels


@dataclass(frozen=True)
class Taps:
    """Pixels along one axis, by RoI, bin and tap (R, bins, T); weight 0 where there is none."""

    index: Tensor
    weight: Tensor


def images_of(
    where: str,
    rois: Tensor,
    lod: Levels,
    images: int,
    *,
    offsets: Tensor | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """The image of each RoI, int64 (R): by `counts` per image, by `offsets`, or by the LoD.

    EnforceNotMet where nothing says it, or where numbers don't agree with `rois` and `images`.
    """
    if counts is None and offsets is not None:
        counts = offsets.reshape(-1).diff()
    if counts is None and not lod:
        raise EnforceNotMet(
            f"{where}: ROIs carries no LoD, so the image of a region is unknown. "
            "Feed it as a LoDTensor, or give the layer the offsets (rois_lod)."
        )
    if counts is None:
        found = lod[-1].owners(rois.device)
        sequences = len(lod[-1])
    else:
        counts = counts.reshape(-1).to(rois.device, torch.int64)
        found = torch.repeat_interleave(torch.arange(counts.numel(), device=rois.device), counts)
        sequences = counts.numel()
    if sequences != images or found.numel() != rois.shape[0]:
        raise EnforceNotMet(
            f"{where}: {found.numel()} regions of {sequences} images are described, but there "
            f"are {rois.shape[0]} regions and {images} images"
        )
    return found


def pixel_rows(X: Tensor) -> Tensor:
    """(N, C, H, W) as (N * H * W, C)."""
    return X.permute(0, 2, 3, 1).reshape(-1, X.shape[1])


def shared_out(extent: Tensor, bins: int) -> Tensor:
    """extent / bins. By a number, GPUs would multiply by its reciprocal, which moves edges."""
    return extent / torch.full_like(extent, bins)


def away_from_zero(value: Tensor) -> Tensor:
    """Rounded to whole numbers, halves away from zero."""
    return torch.sign(value) * torch.floor(value.abs() + 0.5)


def span(first: Tensor, last: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The pixels from `first` up to and without `last`, those that lie in [0, size).

    (R, bins) each -> pixels and whether they count, (R, bins, T).
    """
    first, last = first.clamp(0, size).long(), last.clamp(0, size).long()
    longest = int((last - first).max()) if first.numel() else 0
    pixels = first[..., None] + torch.arange(max(longest, 1), device=first.device)
    return pixels.clamp(max=max(size - 1, 0)), pixels < last[..., None]


def bins_of(image: Tensor, y: Taps, x: Taps, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Rows of `pixel_rows` and weights of each bin: (R, bins_y, bins_x, T_y, T_x)."""
    height, width = shape[-2:]
    line = image[:, None, None] * height + y.index
    index = line[:, :, None, :, None] * width + x.index[:, None, :, None, :]
    return index, y.weight[:, :, None, :, None] * x.weight[:, None, :, None, :]


def add_up(rows: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Sums of weighted rows over the last dimension of index and weight: (..., C)."""
    sizes, flat = index.shape[:-1], weight.reshape(-1, weight.shape[-1])
    used = flat != 0
    total = used.sum(1)
    starts = total.cumsum(0) - total
    taken = index.reshape(used.shape)[used]
    out = F.embedding_bag(taken, rows, starts, mode="sum", per_sample_weights=flat[used])
    return out.reshape(*sizes, rows.shape[1])


def pool(X: Tensor, image: Tensor, y: Taps, x: Taps) -> Tensor:
    """(N, C, H, W) -> (R, C, bins_y, bins_x): the weighted sums of the pixels of each bin."""
    index, weight = bins_of(image, y, x, X.shape)
    return add_up(pixel_rows(X), index.flatten(3), weight.flatten(3)).permute(0, 3, 1, 2)


def pulled_back(
    forward: Callable[..., Tensor], d_out: Tensor, *inputs: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients of `forward(*inputs)`, for operators of several outputs only one of which has one.

    None for an input that the result doesn't depend on.
    """
    given = [one.detach().requires_grad_() for one in inputs]
    with torch.enable_grad():
        out = forward(*given)
    return torch.autograd.grad(out, given, d_out, allow_unused=True)
