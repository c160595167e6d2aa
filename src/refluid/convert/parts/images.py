"""Operations on images that torch has no function for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def temporal_shift(x: Tensor, segments: int, share: float) -> Tensor:
    """A share of the channels from the frame before, as many from the frame after."""
    x = x.unflatten(0, (-1, segments))
    first, second = int(x.shape[2] * share), int(x.shape[2] * 2 * share)
    before = F.pad(x[:, :-1, :first], (0, 0, 0, 0, 0, 0, 1, 0))
    after = F.pad(x[:, 1:, first:second], (0, 0, 0, 0, 0, 0, 0, 1))
    return torch.cat([before, after, x[:, :, second:]], dim=2).flatten(0, 1)


def image_rows(
    x: Tensor, size: tuple[int, int], strides: tuple[int, int], paddings: list[int]
) -> tuple[Tensor, Tensor]:
    """The windows of images as rows, a sequence for each image; with the lengths."""
    top, left, bottom, right = paddings
    windows = F.unfold(F.pad(x, (left, right, top, bottom)), size, stride=strides).mT
    lengths = torch.full((len(x),), windows.shape[1], device=x.device)
    return windows.flatten(0, 1), lengths


def space_to_depth(x: Tensor, size: int) -> Tensor:
    """Blocks of size x size pixels as channels."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(n, c * size * size, h // size, w // size)


def local_response_norm(x: Tensor, size: int, k: float, alpha: float, beta: float) -> Tensor:
    """Each pixel divided by (k + alpha * squares of `size` channels around it) ** beta."""
    before = (size - 1) // 2
    squares = F.pad(x.square(), (0, 0, 0, 0, before, size - 1 - before)).unfold(1, size, 1).sum(-1)
    return x / (k + alpha * squares) ** beta


def deformable_conv(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
    groups: int,
    deformable_groups: int,
) -> Tensor:
    """A convolution whose windows' pixels lie `offset` from their places, weighted by `mask`."""
    n, channels, height, width = x.shape
    filters, _, kh, kw = weight.shape
    ho, wo = offset.shape[2:]
    taps = kh * kw
    moved = offset.reshape(n, deformable_groups, taps, 2, ho, wo)
    rows = torch.arange(ho, device=x.device) * strides[0] - paddings[0]
    columns = torch.arange(wo, device=x.device) * strides[1] - paddings[1]
    dy = torch.arange(kh, device=x.device).repeat_interleave(kw) * dilations[0]
    dx = torch.arange(kw, device=x.device).repeat(kh) * dilations[1]
    y = moved[:, :, :, 0] + dy[:, None, None] + rows[:, None]
    z = moved[:, :, :, 1] + dx[:, None, None] + columns
    grid = torch.stack([(2 * z + 1) / width - 1, (2 * y + 1) / height - 1], -1)
    planes = x.reshape(n * deformable_groups, -1, height, width)
    seen = F.grid_sample(
        planes, grid.reshape(n * deformable_groups, taps * ho, wo, 2), align_corners=False
    )
    seen = seen.reshape(n, deformable_groups, -1, taps, ho, wo)
    if mask is not None:
        seen = seen * mask.reshape(n, deformable_groups, 1, taps, ho, wo)
    seen = seen.reshape(n, groups, channels // groups * taps, ho * wo)
    out = weight.reshape(groups, filters // groups, -1) @ seen
    return out.reshape(n, filters, ho, wo)


def nearest_corners(x: Tensor, size: tuple[int, int] = (0, 0), scale: int = 1) -> Tensor:
    """Resized by nearest pixels, with the corners' pixels in the corners."""
    high, wide = size if size[0] else (x.shape[2] * scale, x.shape[3] * scale)
    rows = torch.arange(high, device=x.device) * ((x.shape[2] - 1) / max(high - 1, 1)) + 0.5
    columns = torch.arange(wide, device=x.device) * ((x.shape[3] - 1) / max(wide - 1, 1)) + 0.5
    return x[:, :, rows.long()][:, :, :, columns.long()]
