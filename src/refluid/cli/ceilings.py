"""What the machine can do at most: its matrix rate and its memory bandwidth, measured here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

_SIZE = {"cpu": 1024, "cuda": 8192}
_BYTES = {"cpu": 1 << 27, "cuda": 1 << 31}
_REPEATS = 12


@dataclass(frozen=True)
class Ceilings:
    """Floating-point operations and bytes per second, with as many threads as now."""

    rate: float
    bandwidth: float

    def least_seconds(self, flops: float, moved: float) -> float:
        """The time below which that much arithmetic and traffic can't be done."""
        return max(flops / self.rate, moved / self.bandwidth)

    def bound(self, flops: float, moved: float) -> str:
        """Which of both limits it: "arithmetic" or "memory"."""
        return "arithmetic" if flops / self.rate > moved / self.bandwidth else "memory"


def measure(device: torch.device) -> Ceilings:
    """Measures both on a device with float32: a large matrix product, a large copy."""
    size, count = _SIZE[device.type], _BYTES[device.type] // 4
    left = torch.rand(size, size, device=device)
    right, out = torch.rand_like(left), torch.empty_like(left)
    source = torch.zeros(count, device=device)
    target = torch.zeros_like(source)
    product = _fastest(lambda: torch.mm(left, right, out=out), device)
    copy = _fastest(lambda: target.copy_(source), device)
    return Ceilings(2 * size**3 / product, 2 * 4 * count / copy)


def _fastest(work: Callable[[], object], device: torch.device) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best
