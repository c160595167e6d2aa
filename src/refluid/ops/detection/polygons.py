"""How much polygons overlap: (..., 2n) numbers x1, y1 ... xn, yn each.

A point is inside where a ray from it crosses the outline an odd number of times, so outlines
may cross themselves. Between two neighbouring heights at which there is a corner or a crossing
all outlines are straight: there the shared area is its width halfway times the height.
"""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 1 << 22


def polygon_areas(polygons: Tensor) -> Tensor:
    """(..., 2n) -> (...): the area that the outline goes round."""
    x, y = polygons[..., 0::2], polygons[..., 1::2]
    return (x * y.roll(-1, -1) - x.roll(-1, -1) * y).sum(-1).abs() / 2


def polygon_overlaps(one: Tensor, other: Tensor) -> Tensor:
    """(..., N, 2n), (..., M, 2n) -> (..., N, M): shared area by covered area of each two."""
    first, second = one[..., :, None, :].double(), other[..., None, :, :].double()
    size = (*one.shape[:-1], *other.shape[-2:])
    pairs = [side.expand(size).reshape(-1, size[-1] // 2, 2) for side in (first, second)]
    shared = pairs[0].new_zeros(len(pairs[0]))
    near = _boxes_meet(*pairs).nonzero().squeeze(1)
    chunk = max(1, _CHUNK // (size[-1] // 2) ** 3)
    for start in range(0, len(near), chunk):
        part = near[start : start + chunk]
        shared[part] = _shared_areas(pairs[0][part], pairs[1][part])
    areas = [polygon_areas(side.flatten(1)) for side in pairs]
    none = (shared == 0) | (areas[0] == 0) | (areas[1] == 0)
    ratio = shared / (areas[0] + areas[1] - shared)
    return ratio.masked_fill(none, 0.0).reshape(size[:-1]).to(one.dtype)


def _boxes_meet(one: Tensor, other: Tensor) -> Tensor:
    """Whether the boxes around polygons (P, n, 2) meet."""
    apart = (one.amin(1) > other.amax(1)) | (other.amin(1) > one.amax(1))
    return ~apart.any(1)


def _shared_areas(one: Tensor, other: Tensor) -> Tensor:
    """(P, n, 2) twice -> (P): the area inside both polygons of each pair."""
    start = torch.cat((one, other), 1)
    end = torch.cat((one.roll(-1, 1), other.roll(-1, 1)), 1)
    heights = torch.cat((start[..., 1], _crossings(start, end)), 1).sort(1).values
    thickness = heights.diff(dim=1)
    middle = (heights[:, 1:] + heights[:, :-1])[..., None] / 2
    run, rise = (end - start)[:, None].unbind(-1)
    x0, y0, y1 = start[:, None, :, 0], start[:, None, :, 1], end[:, None, :, 1]
    crossed = (torch.minimum(y0, y1) < middle) & (middle < torch.maximum(y0, y1))
    x = torch.where(crossed, x0 + (middle - y0) * (run / rise), torch.inf)
    x, order = x.sort(2)
    own = order < one.shape[1]
    crossed = crossed.gather(2, order)
    inside = ((crossed & own).cumsum(2) % 2 == 1) & ((crossed & ~own).cumsum(2) % 2 == 1)
    width = torch.where(inside[..., :-1], x.diff(dim=2), 0.0)
    return (width.sum(2) * thickness).sum(1)


def _crossings(start: Tensor, end: Tensor) -> Tensor:
    """Heights at which the lines through any two edges cross, edges (P, E, 2); parallel: any."""
    edges = start.shape[1]
    i, j = torch.triu_indices(edges, edges, 1, device=start.device)
    way = end - start
    gap = start[:, j] - start[:, i]
    turn = _cross(way[:, i], way[:, j])
    along = _cross(gap, way[:, j]) / turn
    height = start[:, i, 1] + along * way[:, i, 1]
    low, high = start[..., 1].amin(1, keepdim=True), start[..., 1].amax(1, keepdim=True)
    return height.nan_to_num(0.0).clamp(low, high)


def _cross(one: Tensor, other: Tensor) -> Tensor:
    return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]
