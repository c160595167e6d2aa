"""Spatial pyramid pooling, and max pooling undone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.ops.bounded import Images
from refluid.ops.nn.pool_windows import max_windows, mean_windows
from refluid.ops.registry import gradient, operator


def _pooled(x: Tensor, bins: int, kind: str) -> Tensor:
    """bins x bins windows that cover x, flattened, as of `pool2d`; padding doesn't count."""
    sizes = [-(-size // bins) for size in x.shape[2:]]
    pads = [(k * bins - size + 1) // 2 for k, size in zip(sizes, x.shape[2:], strict=True)]
    around = [(pad, pad) for pad in pads]
    if kind == "max":
        out = max_windows(x, sizes, sizes, around, ceil_mode=False)
    else:
        out = mean_windows(x, sizes, sizes, around, ceil_mode=False, exclusive=True)
    return out[:, :, :bins, :bins].flatten(1)


@operator("spp", outputs="Out", amp="keep")
def spp(X: Images, *, pyramid_height: int, pooling_type: str) -> Tensor:
    """X (N, C, H, W) pooled (`max` or `avg`) to 1, 2 x 2, 4 x 4, ... windows, side by side.

    The result is (N, C * (4 ** pyramid_height - 1) / 3).
    """
    return torch.cat([_pooled(X, 2**level, pooling_type) for level in range(pyramid_height)], 1)


@operator("unpool", outputs="Out", differentiable="X")
def unpool(
    X: Tensor,
    Indices: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    unpooling_type: str,
) -> Tensor:
    """X (N, C, H, W) put where max_pool2d_with_index found it; zeros elsewhere."""
    sizes = [
        (size - 1) * step - 2 * pad + k
        for size, step, pad, k in zip(X.shape[2:], strides, paddings, ksize, strict=True)
    ]
    out = X.new_zeros((*X.shape[:2], sizes[0] * sizes[1]))
    if not X.is_meta:
        out.scatter_(2, Indices.flatten(2).long(), X.flatten(2))
    return out.view(*X.shape[:2], *sizes)


@gradient("unpool")
def unpool_grad(X: Tensor, Indices: Tensor, Out: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out from where X was put."""
    return d_Out.flatten(2).gather(2, Indices.flatten(2).long()).view(X.shape)
