"""How much boxes (xmin, ymin, xmax, ymax) overlap: pairwise, for any leading dimensions.

Boxes in pixels (not normalized) hold their last pixel, so that a side is 1 longer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.bounded import Matrix
from refluid.ops.detection.polygons import polygon_overlaps
from refluid.ops.registry import operator

Overlap = Callable[[Tensor, Tensor], Tensor]
_TINY = 1e-37


def sides(boxes: Tensor, normalized: bool) -> tuple[Tensor, Tensor]:
    """Width and height of boxes (..., 4)."""
    size = boxes[..., 2:] - boxes[..., :2]
    width, height = (size if normalized else size + 1).unbind(-1)
    return width, height


def overlaps(one: Tensor, other: Tensor, normalized: bool) -> Tensor:
    """(..., N, 4), (..., M, 4) -> (..., N, M): shared area by covered area, 0 for boxes apart."""
    left, top, right, bottom = (side[..., :, None] for side in _columns(one))
    first, upper, last, lower = (side[..., None, :] for side in _columns(other))
    width = torch.minimum(right, last).sub_(torch.maximum(left, first))
    height = torch.minimum(bottom, lower).sub_(torch.maximum(top, upper))
    areas = _area(one, normalized)[..., :, None] + _area(other, normalized)[..., None, :]
    if _have_areas(one, normalized) and _have_areas(other, normalized):
        shared = _shared_side(width, normalized).mul_(_shared_side(height, normalized))
        return shared.div_(areas.sub_(shared))
    meet = (left <= last).logical_and_(first <= right)
    meet.logical_and_(top <= lower).logical_and_(upper <= bottom)
    more = 0 if normalized else 1
    shared = width.add_(more).mul_(height.add_(more))
    return shared.div_(areas.sub_(shared)).masked_fill_(meet.logical_not_(), 0.0)


def _have_areas(boxes: Tensor, normalized: bool) -> bool:
    """Whether every box has an area, so that boxes that don't meet are those with a gap."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return bool((low < high if normalized else low <= high).all())


def _shared_side(reach: Tensor, normalized: bool) -> Tensor:
    """How long the shared side is; 0 where the reach is negative, which is a gap."""
    if normalized:
        return reach.clamp_(min=0.0)
    return torch.threshold_(reach, -_TINY, -1.0).add_(1.0)


def _columns(boxes: Tensor) -> tuple[Tensor, ...]:
    """The four coordinates, each in one piece of memory."""
    if boxes.shape[-1] != 4:
        raise EnforceNotMet(f"a box has four numbers, but boxes are {list(boxes.shape)}")
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
def iou_similarity(X: Matrix, Y: Matrix, *, box_normalized: bool = True) -> Tensor:
    """(N, 4), (M, 4) -> (N, M): shared area by covered area of each two boxes, and 1e-10 more, so
    that those without an area have nothing in common (as paddle 2.6.2 has it)."""
    left, top, right, bottom = (side[:, None] for side in _columns(X))
    first, upper, last, lower = _columns(Y)
    more = 0 if box_normalized else 1
    width = torch.minimum(right, last).sub_(torch.maximum(left, first)).add_(more).clamp_(min=0)
    height = torch.minimum(bottom, lower).sub_(torch.maximum(top, upper)).add_(more).clamp_(min=0)
    shared = width.mul_(height)
    one, other = (w * h for w, h in (sides(X, box_normalized), sides(Y, box_normalized)))
    return shared.div_((one[:, None] + other).sub_(shared).add_(1e-10))
