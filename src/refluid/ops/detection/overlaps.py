"""How much boxes (xmin, ymin, xmax, ymax) overlap: pairwise, for any leading dimensions.

Boxes in pixels (not normalized) hold their last pixel, so that a side is 1 longer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.ops.detection.polygons import polygon_overlaps
from refluid.ops.registry import operator

Overlap = Callable[[Tensor, Tensor], Tensor]


def sides(boxes: Tensor, normalized: bool) -> tuple[Tensor, Tensor]:
    """Width and height of boxes (..., 4)."""
    size = boxes[..., 2:] - boxes[..., :2]
    width, height = (size if normalized else size + 1).unbind(-1)
    return width, height


def overlaps(one: Tensor, other: Tensor, normalized: bool) -> Tensor:
    """(..., N, 4), (..., M, 4) -> (..., N, M): shared area by covered area, 0 for boxes apart."""
    left, top, right, bottom = (side[..., :, None] for side in _columns(one))
    first, upper, last, lower = (side[..., None, :] for side in _columns(other))
    meet = (left <= last).logical_and_(first <= right)
    meet.logical_and_(top <= lower).logical_and_(upper <= bottom)
    width = torch.minimum(right, last).sub_(torch.maximum(left, first))
    height = torch.minimum(bottom, lower).sub_(torch.maximum(top, upper))
    more = 0 if normalized else 1
    shared = width.add_(more).mul_(height.add_(more))
    areas = _area(one, normalized)[..., :, None] + _area(other, normalized)[..., None, :]
    covered = areas.sub_(shared)
    return shared.div_(covered).masked_fill_(meet.logical_not_(), 0.0)


def _columns(boxes: Tensor) -> tuple[Tensor, ...]:
    """The four coordinates, each in one piece of memory."""
    return tuple(column.contiguous() for column in boxes.unbind(-1))


def overlap_of(columns: int, normalized: bool) -> Overlap:
    """The measure for shapes of that many numbers: boxes for 4, polygons for more."""
    if columns > 4:
        return polygon_overlaps
    return lambda one, other: overlaps(one, other, normalized)


def _area(boxes: Tensor, normalized: bool) -> Tensor:
    """Areas, 0 for boxes whose corners are swapped."""
    width, height = sides(boxes, normalized)
    swapped = (boxes[..., 2:] < boxes[..., :2]).any(-1)
    return (width * height).masked_fill(swapped, 0.0)


@operator("iou_similarity", outputs="Out", uses=None)
def iou_similarity(X: Tensor, Y: Tensor, *, box_normalized: bool = True) -> Tensor:
    """(N, 4), (M, 4) -> (N, M): shared area by covered area of each two boxes."""
    low, high = torch.maximum(X[:, None, :2], Y[:, :2]), torch.minimum(X[:, None, 2:], Y[:, 2:])
    width, height = sides(torch.cat((low, high), -1), box_normalized)
    shared = width.clamp(min=0) * height.clamp(min=0)
    one, other = (w * h for w, h in (sides(X, box_normalized), sides(Y, box_normalized)))
    return shared / (one[:, None] + other[None] - shared)
