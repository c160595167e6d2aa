"""Seeds that a program draws itself, so that a random operator can be repeated."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.signature import Random

_LARGEST = 2**31 - 1


@operator("seed", outputs="Out", uses=None)
def seed(*, seed: int = 0, random: Random, device: torch.device) -> Tensor:
    """`seed` where it isn't 0, else a random positive number; int32 of shape (1,)."""
    if seed or device.type == "meta":
        return torch.full((1,), seed, dtype=torch.int32, device=device)
    drawn = torch.randint(1, _LARGEST, (1,), generator=random(0), device=device)
    return drawn.to(torch.int32)
