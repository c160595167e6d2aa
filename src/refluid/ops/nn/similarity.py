"""similarity_focus: the greatest elements of planes, no two in one row or column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.registry import operator


def _greedy(planes: Tensor) -> Tensor:
    """1 at the greatest element of each plane, (B, H, W), then at the greatest of those rows and
    columns that hold no 1 yet, and so on."""
    batch, height, width = planes.shape
    left = planes.clone()
    chosen = torch.zeros_like(planes)
    number = torch.arange(batch, device=planes.device)
    for _ in range(min(height, width)):
        place = left.flatten(1).argmax(1)
        row, column = place // width, place % width
        chosen[number, row, column] = 1.0
        left[number, row] = -float("inf")
        left[number, :, column] = -float("inf")
    return chosen


@operator("similarity_focus", outputs="Out", uses=None)
def similarity_focus(X: Tensor, *, axis: int, indexes: Sequence[int]) -> Tensor:
    """A mask of the shape of X, (B, H, W, D): the same for all of `axis` (1, 2 or 3).

    Of each plane that `indexes` name on `axis` the greatest elements are 1, at most one in a row
    and in a column; the masks of several planes are united.
    """
    if X.is_meta:
        return torch.empty_like(X)
    if axis not in (1, 2, 3):
        raise EnforceNotMet(f"The value of Attr(axis) must be 1 or 2 or 3, but received {axis}.")
    planes = X.index_select(axis, torch.tensor(list(indexes), device=X.device)).movedim(axis, 1)
    masks = _greedy(planes.flatten(0, 1)).view(planes.shape).amax(1)
    return masks.unsqueeze(axis).expand(X.shape).contiguous()
