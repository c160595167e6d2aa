"""The largest elements of rows, in an order that doesn't depend on the algorithm."""

from __future__ import annotations

import torch
from torch import Tensor

_SORTED = 1024


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest elements of the last dimension, largest first, and their positions.

    Of equal elements the first come first (beyond 1024 of them, in any order). Fewer where the
    dimension is smaller.
    """
    size = x.shape[-1]
    if size > _SORTED:
        return torch.topk(x, min(count, size), -1)
    if count < size and x.device.type == "cpu":
        values, places = torch.topk(x, count + 1, -1)
        if not bool((values[..., 1:] == values[..., :-1]).any()):
            return values[..., :count].contiguous(), places[..., :count].contiguous()
    values, places = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[..., :count].contiguous(), places[..., :count].contiguous()
