"""Random numbers, of torch's generator."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform(shape: tuple[int, ...], low: float, high: float, device: torch.device) -> Tensor:
    """Numbers between low and high."""
    return torch.empty(shape, device=device).uniform_(low, high)


def gaussian(shape: tuple[int, ...], mean: float, std: float, device: torch.device) -> Tensor:
    """Numbers of a normal distribution."""
    return torch.empty(shape, device=device).normal_(mean, std)
