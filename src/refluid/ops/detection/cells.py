"""Columns and rows of a map as numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def numbers(count: int, like: Tensor) -> Tensor:
    """0, 1 ... count - 1, of the type and on the device of `like`."""
    return torch.arange(count, dtype=like.dtype, device=like.device)
