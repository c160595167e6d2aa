"""Images read at points of grids, and put together of windows, as Paddle 2 has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.registry import operator


@operator("grid_sample", outputs="Out", uses="X Grid", lod="")
def grid_sample(
    X: Tensor,
    Grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """X (N, C, H, W) at the points Grid (N, H', W', 2), or (N, C, D, H, W) at (N, D', H', W', 3).

    Corners are at ±1: the middles of elements there with `align_corners`, else their outer edges.
    """
    return F.grid_sample(X, Grid, mode, padding_mode, align_corners)


@operator("affine_grid_v2", outputs="Out", uses="Theta", lod="")
def affine_grid_v2(
    Theta: Tensor, *, output_shape: Sequence[int], align_corners: bool = True
) -> Tensor:
    """The points (N, H, W, 2) or (N, D, H, W, 3) that matrices (N, 2, 3) or (N, 3, 4) map to."""
    return F.affine_grid(Theta, [Theta.shape[0], *output_shape[1:]], align_corners)


@operator("fold", outputs="Out", uses="X", lod="")
def fold(
    X: Tensor,
    *,
    output_sizes: Sequence[int],
    kernel_sizes: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int],
) -> Tensor:
    """Windows (N, C h w, count) added up to (N, C, H, W); paddings: top, left, bottom, right."""
    top, left, bottom, right = paddings
    whole = (output_sizes[0] + top + bottom, output_sizes[1] + left + right)
    found = F.fold(X, whole, tuple(kernel_sizes), tuple(dilations), 0, tuple(strides))
    return found[:, :, top : top + output_sizes[0], left : left + output_sizes[1]]


@operator("max_unpool", outputs="Out", uses="X Indices", lod="")
def max_unpool(X: Tensor, Indices: Tensor, *, output_size: Sequence[int]) -> Tensor:
    """Elements put where they were in what was pooled, zeros elsewhere.

    Indices: places in a plane or volume of `output_size`, as pooling gives them.
    """
    outer = X.shape[:2]
    size = int(torch.Size(output_size).numel())
    places = Indices.long().flatten(2)
    return X.new_zeros(*outer, size).scatter(2, places, X.flatten(2)).reshape(*outer, *output_size)
