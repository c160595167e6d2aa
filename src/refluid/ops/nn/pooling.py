"""Pooling, in NCHW and NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.bounded import Images
from refluid.ops.extras import POOLING
from refluid.ops.nn import windows as padding
from refluid.ops.nn.pool_windows import max_windows, mean_windows, whole_max
from refluid.ops.registry import operator


@operator("pool2d", gradient_lod="none", outputs="Out", extra=POOLING, pools=True)
def pool2d(
    X: Images,
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
        out = whole_max(x) if pooling_type == "max" else _WholeMean.apply(x)  # type: ignore[no-untyped-call]
    elif adaptive:
        pool = F.adaptive_max_pool2d if pooling_type == "max" else F.adaptive_avg_pool2d
        out = pool(x, (ksize[0], ksize[1]))
    else:
        pads = padding.resolve(paddings, padding_algorithm, x.shape[2:], ksize, strides)
        if pooling_type == "max":
            out = max_windows(x, ksize, strides, pads, ceil_mode)
        else:
            out = mean_windows(x, ksize, strides, pads, ceil_mode, exclusive)
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
