"""Outlines drawn as masks, the way COCO's mask tools do it.

The outline is walked in steps of a fifth of a pixel. Wherever it passes the middle of a column
of pixels, everything below is turned over, so that what is inside ends up turned an odd number
of times.
"""

from __future__ import annotations

import torch
from torch import Tensor

_FINE = 5


def _walk(start: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All grid points of the edges (E, 2): their x, their y and the edge of each."""
    step = end - start
    count = step.abs().amax(1)
    edge = torch.repeat_interleave(torch.arange(len(start), device=start.device), count + 1)
    first = (count + 1).cumsum(0) - (count + 1)
    along = torch.arange(edge.numel(), device=edge.device) - first[edge]
    flat = step[:, 0].abs() >= step[:, 1].abs()
    main, other = (torch.where(flat, step[:, axis], step[:, 1 - axis]) for axis in (0, 1))
    # An edge that runs backwards is walked from its far end: rounding is not symmetric.
    back = main < 0
    origin = torch.where(back[:, None], end, start)
    place = torch.where(back[edge], count[edge] - along, along)
    slope = (other.double() / main.double()).nan_to_num(0.0)
    base = torch.where(flat, origin[:, 1], origin[:, 0]).double()
    across = torch.trunc(base[edge] + slope[edge] * place + 0.5).long()
    lead = torch.where(flat, origin[:, 0], origin[:, 1])[edge] + place
    x = torch.where(flat[edge], lead, across)
    return x, torch.where(flat[edge], across, lead), edge


def rasterised(points: Tensor, outline: Tensor, count: int, size: int) -> Tensor:
    """Masks (count, size, size), bool, of outlines; their corners (V, 2) come one after another.

    outline: that each corner belongs to (V), rising. Corners are x and y in pixels of the mask.
    """
    fine = torch.trunc(points.double() * _FINE + 0.5).long()
    sizes = torch.bincount(outline, minlength=count)
    ends = sizes.cumsum(0)
    following = torch.arange(1, len(fine) + 1, device=fine.device)
    last = (ends - 1)[sizes > 0]
    following[last] = (ends - sizes)[sizes > 0]
    x, y, edge = _walk(fine, fine[following])
    owner = outline[edge]
    passed = (x[1:] != x[:-1]) & (owner[1:] == owner[:-1])
    column = torch.where(x[1:] < x[:-1], x[1:], x[1:] - 1)
    middle = _FINE // 2
    column, off = (column - middle) // _FINE, (column - middle) % _FINE
    passed &= (off == 0) & (column >= 0) & (column < size)
    row = (torch.minimum(y[1:], y[:-1]) + 0.5) / _FINE - 0.5
    row = row.clamp(0, size).ceil().long()
    turned = torch.zeros(count, size * size + 1, dtype=torch.int64, device=points.device)
    at = column * size + row
    found = owner[1:][passed], at[passed]
    turned.index_put_(found, torch.ones_like(found[0]), accumulate=True)
    inside = turned[:, :-1].cumsum(1) % 2 == 1
    return inside.reshape(count, size, size).transpose(1, 2)
