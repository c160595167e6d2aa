"""The machine's matrix ceiling, as PyTorch reaches it now."""

from __future__ import annotations

from collections.abc import Callable

import torch

SIZES = {"cpu": (1024, 6), "cuda": (8192, 20)}


def matrix_rate(
    device: str, clock: Callable[[], float], dtype: torch.dtype = torch.float32
) -> float:
    """Floating-point operations per second of the fastest of several square matrix products."""
    size, tries = SIZES[device]
    left = torch.randn(size, size, device=device, dtype=dtype)
    right = torch.randn(size, size, device=device, dtype=dtype)
    out = torch.empty_like(left)
    best = float("inf")
    for _ in range(tries):
        begin = clock()
        torch.mm(left, right, out=out)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, clock() - begin)
    return 2 * size**3 / best
