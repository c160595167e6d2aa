"""Pooling, in NCHW and NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops import padding
from refluid.ops.extras import POOLING
from refluid.ops.registry import operator


@operator("pool2d", outputs="Out", extra=POOLING)
def pool2d(
    X: Tensor,
    *,
    pooling_type: str,
    ksize: Sequence[int],
    global_pooling: bool = False,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    exclusive: bool = True,
    adaptive: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """The maximum (`max`) or mean (`avg`) of each window of `ksize`.

    X (N, C, H, W), or (N, H, W, C) with data_format NHWC. exclusive: a mean counts only what
    lies inside X. adaptive: `ksize` is the size of the output. global_pooling: one window.
    """
    x = X.permute(0, 3, 1, 2) if data_format == "NHWC" else X
    if global_pooling or (adaptive and tuple(ksize) == (1, 1)):
        out = x.amax((2, 3), keepdim=True) if pooling_type == "max" else _WholeMean.apply(x)  # type: ignore[no-untyped-call]
    elif adaptive:
        pool = F.adaptive_max_pool2d if pooling_type == "max" else F.adaptive_avg_pool2d
        out = pool(x, (ksize[0], ksize[1]))
    else:
        pads = padding.resolve(paddings, padding_algorithm, x.shape[2:], ksize, strides)
        pads = padding.reach(pads, x.shape[2:], ksize)
        pool_windows = _max if pooling_type == "max" else _mean
        out = pool_windows(x, ksize, strides, pads, ceil_mode, exclusive)
    return out.permute(0, 2, 3, 1) if data_format == "NHWC" else out


class _WholeMean(torch.autograd.Function):
    """The mean of each channel; unlike that of mean(), its gradient has the memory layout of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.layout = torch.empty_like(x, device="meta")
        return x.mean((2, 3), keepdim=True)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        layout: Tensor = ctx.layout
        share = grads[0] / (layout.shape[2] * layout.shape[3])
        return torch.empty_like(layout, device=share.device).copy_(share)


def _fits_torch(pads: padding.Pads, ksize: Sequence[int]) -> list[int] | None:
    """Paddings that torch's own pools take: symmetric, and at most half a window."""
    same = padding.symmetric(pads)
    if same is None or any(pad > size // 2 for pad, size in zip(same, ksize, strict=True)):
        return None
    return same


def _max(
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    ceil_mode: bool,
    exclusive: bool,
) -> Tensor:
    same = _fits_torch(pads, ksize)
    if same is None:
        x, same = F.pad(x, padding.flat(pads), value=float("-inf")), [0, 0]
    return torch.max_pool2d(x, tuple(ksize), tuple(strides), same, 1, ceil_mode)


def _mean(
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    ceil_mode: bool,
    exclusive: bool,
) -> Tensor:
    same = _fits_torch(pads, ksize)
    if same is not None:
        return F.avg_pool2d(x, tuple(ksize), tuple(strides), same, ceil_mode, not exclusive)
    area = ksize[0] * ksize[1]
    total = F.avg_pool2d(
        F.pad(x, padding.flat(pads)), tuple(ksize), tuple(strides), 0, ceil_mode, True, 1
    )
    if not exclusive:
        return total / area
    inside = F.pad(torch.ones_like(x[:1, :1]), padding.flat(pads))
    count = F.avg_pool2d(inside, tuple(ksize), tuple(strides), 0, ceil_mode, True, 1)
    return total / count
