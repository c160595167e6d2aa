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
    sides = [side.reshape(-1, *side.shape[-2:]).double() for side in (one, other)]
    first, second = (side.reshape(*side.shape[:2], one.shape[-1] // 2, 2) for side in sides)
    group, row, column = near = _boxes_meet(first, second).nonzero(as_tuple=True)
    shared = torch.empty(len(group), dtype=torch.float64, device=one.device)
    chunk = max(1, _CHUNK // first.shape[2] ** 3)
    for start in range(0, len(group), chunk):
        part = slice(start, start + chunk)
        pairs = first[group[part], row[part]], second[group[part], column[part]]
        shared[part] = _shared_areas(*pairs)
    areas = [polygon_areas(side) for side in sides]
    covered = areas[0][group, row] + areas[1][group, column] - shared
    out = one.new_zeros((len(first), first.shape[1], second.shape[1]))
    out[near] = torch.where(shared > 0, shared / covered, 0.0).to(one.dtype)
    return out.reshape(*one.shape[:-1], other.shape[-2])


def _boxes_meet(one: Tensor, other: Tensor) -> Tensor:
    """Whether the boxes around polygons (G, N, n, 2) and (G, M, n, 2) meet: (G, N, M)."""
    (low, high), (below, above) = ((side.amin(2), side.amax(2)) for side in (one, other))
    meet = [
        (low[:, :, None, axis] <= above[:, None, :, axis])
        & (below[:, None, :, axis] <= high[:, :, None, axis])
        for axis in (0, 1)
    ]
    return meet[0] & meet[1]


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
