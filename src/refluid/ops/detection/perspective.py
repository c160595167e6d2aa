"""roi_perspective_transform: quadrilateral regions brought into an upright rectangle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.detection.rois import (
    add_up,
    away_from_zero,
    images_of,
    pixel_rows,
    pulled_back,
)
from refluid.ops.detection.shapes import ROWS, infer_by
from refluid.ops.infer import InputSpec
from refluid.ops.registry import gradient, operator

_EPSILON = 1e-5
_ON_EDGE = 1e-4


def _infer(op: Operator, inputs: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    (_, channels, *_), dtype = inputs["X"]
    size = op.attrs["transformed_height"], op.attrs["transformed_width"]
    out = (ROWS, channels, *size)
    return {
        "Out": (out, dtype),
        "Mask": ((ROWS, 1, *size), VarType.INT32),
        "TransformMatrix": ((ROWS, 9), dtype),
        "Out2InIdx": (out, VarType.INT32),
        "Out2InWeights": (out, dtype),
    }


def _matrices(px: Tensor, py: Tensor, height: int, width: int) -> Tensor:
    """The projections (R, 9) from a rectangle to the quadrilaterals of corners px, py (R, 4).

    The rectangle has the aspect of the region: it is `height` high and up to `width` wide.
    """
    side = torch.hypot(px - px.roll(-1, 1), py - py.roll(-1, 1))
    tall, wide = (side[:, 1] + side[:, 3]) / 2, (side[:, 0] + side[:, 2]) / 2
    rows = max(2, height)
    columns = (away_from_zero(wide * (rows - 1) / tall) + 1).clamp(max=width).clamp(min=2)
    across, down = columns - 1, float(rows - 1)
    dx1, dx2, dx3 = px[:, 1] - px[:, 2], px[:, 3] - px[:, 2], px @ px.new_tensor([1, -1, 1, -1])
    dy1, dy2, dy3 = py[:, 1] - py[:, 2], py[:, 3] - py[:, 2], py @ py.new_tensor([1, -1, 1, -1])
    scale = dx1 * dy2 - dx2 * dy1 + _EPSILON
    g = (dx3 * dy2 - dx2 * dy3) / scale / across
    h = (dx1 * dy3 - dx3 * dy1) / scale / down

    def line(corner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        right = (corner[:, 1] - corner[:, 0] + g * across * corner[:, 1]) / across
        below = (corner[:, 3] - corner[:, 0] + h * down * corner[:, 3]) / down
        return right, below, corner[:, 0]

    return torch.stack([*line(px), *line(py), g, h, torch.ones_like(g)], 1)


def _inside(x: Tensor, y: Tensor, px: Tensor, py: Tensor) -> Tensor:
    """Whether points (R, P) lie in the quadrilaterals (R, 4) or on their edges."""
    x, y = x[..., None], y[..., None]
    xs, ys, xe, ye = (one[:, None] for one in (px, py, px.roll(-1, 1), py.roll(-1, 1)))
    level = (ys - ye).abs() < _ON_EDGE
    between_y = (y > torch.minimum(ys, ye) - _ON_EDGE) & (y < torch.maximum(ys, ye) + _ON_EDGE)
    between_x = (x > torch.minimum(xs, xe) - _ON_EDGE) & (x < torch.maximum(xs, xe) + _ON_EDGE)
    crossing = (y - ys) * (xe - xs) / torch.where(level, 1, ye - ys) + xs
    flat_edge = level & ((y - ys).abs() < _ON_EDGE) & ((y - ye).abs() < _ON_EDGE) & between_x
    steep_edge = ~level & ((crossing - x).abs() < _ON_EDGE) & between_y
    upward = (y > torch.minimum(ys, ye) + _ON_EDGE) & (y < torch.maximum(ys, ye) + _ON_EDGE)
    crossed = ~level & upward & (crossing > x + _ON_EDGE)
    return (flat_edge | steep_edge).any(-1) | (crossed.sum(-1) % 2 == 1)


def _corners(x: Tensor, y: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The four pixels around each point, as places in a plane, and their weights (..., 4)."""
    x, y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    left, top = x.floor(), y.floor()
    right, low = (left + 1).clamp(max=width - 1), (top + 1).clamp(max=height - 1)
    fx, fy = x - left, y - top
    places = [top * width + left, top * width + right, low * width + left, low * width + right]
    shares = [(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx]
    return torch.stack(places, -1).long(), torch.stack(shares, -1)


@operator(
    "roi_perspective_transform",
    outputs="Out Mask TransformMatrix Out2InIdx Out2InWeights",
    uses="X ROIs Out2InIdx Out2InWeights",
    differentiable="X",
    lod="",
    makes_lod="Out",
    infer=infer_by(_infer, Out="ROIs"),
)
def roi_perspective_transform(
    X: Tensor,
    ROIs: Tensor,
    *,
    spatial_scale: float = 1.0,
    transformed_height: int = 1,
    transformed_width: int = 1,
    lod_ROIs: Levels = (),
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Levels]:
    """RoIs of four corners (R, 8), clockwise from the top left one, as upright images.

    Out (R, C, h, w), a mask (R, 1, h, w), int32, of what came out of the region and the image,
    and the projections (R, 9) from places in Out to places in X. The last two outputs are empty.
    """
    where = "roi_perspective_transform"
    image = images_of(where, ROIs, lod_ROIs, X.shape[0])
    height, width = X.shape[2:]
    corners = (ROIs.detach() * spatial_scale).reshape(-1, 4, 2)
    px, py = corners[..., 0], corners[..., 1]
    matrix = _matrices(px, py, transformed_height, transformed_width)
    rows_of = torch.arange(transformed_height, device=X.device, dtype=X.dtype)
    columns_of = torch.arange(transformed_width, device=X.device, dtype=X.dtype)
    v, u = (one.reshape(-1) for one in torch.meshgrid(rows_of, columns_of, indexing="ij"))
    places = matrix.reshape(-1, 3, 3) @ torch.stack([u, v, torch.ones_like(u)])
    x, y = places[:, 0] / places[:, 2], places[:, 1] / places[:, 2]
    taken = _inside(x, y, px, py)
    taken &= (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    index, weight = _corners(x, y, height, width)
    index = index.masked_fill(~taken[..., None], 0) + image[:, None, None] * (height * width)
    out = add_up(pixel_rows(X), index, weight.masked_fill(~taken[..., None], 0))
    size = transformed_height, transformed_width
    return (
        out.transpose(1, 2).reshape(-1, X.shape[1], *size),
        taken.int().reshape(-1, 1, *size),
        matrix,
        ROIs.new_empty(0, dtype=torch.int32),
        ROIs.new_empty(0),
        lod_ROIs,
    )


@gradient("roi_perspective_transform", like="roi_perspective_transform")
def roi_perspective_transform_grad(
    X: Tensor,
    ROIs: Tensor,
    Out2InIdx: Tensor,
    Out2InWeights: Tensor,
    d_Out: Tensor,
    **settings: Any,
) -> Tensor | None:
    """d_Out brought back to the pixels that it came from."""

    def forward(pixels: Tensor) -> Tensor:
        out: Tensor = roi_perspective_transform(pixels, ROIs, **settings)[0]
        return out

    return pulled_back(forward, d_Out, X)[0]
