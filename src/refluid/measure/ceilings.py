"""What the machine can do at most: its matrix rate and its memory bandwidth, measured here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from refluid.kernels import onednn

_SIZE = {"cpu": 1024, "accelerator": 8192}
_LAYER = {"cpu": (8, 128, 28), "accelerator": (64, 512, 56)}
_BYTES = {"cpu": 1 << 27, "accelerator": 1 << 31}
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
    """Measures both on a device with float32: large products, a large copy."""
    return Ceilings(matrix_rate(device), copy_rate(device))


def copy_rate(device: torch.device) -> float:
    """Bytes per second read and written by a large copy."""
    source = torch.zeros(_BYTES[_kind(device)] // 4, device=device)
    target = torch.zeros_like(source)
    copy = _fastest(lambda: target.copy_(source), device, time.perf_counter)
    return 2 * 4 * source.numel() / copy


def matrix_rate(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Floating-point operations per second of the fastest kernel, by a clock that gives seconds.

    On the CPU three libraries' kernels multiply: those of `torch.mm`, of `torch.nn.Linear` where
    oneDNN has it, of convolutions. None is the fastest on every processor, and without instructions
    for `dtype` some can't compute it; these have no rate.
    """
    size = _SIZE[_kind(device)]
    left = torch.rand(size, size, device=device, dtype=dtype)
    right, out = torch.rand_like(left), torch.empty_like(left)
    kernels: list[Callable[[], object]] = [lambda: torch.mm(left, right, out=out)]
    linear = onednn.linear
    if linear and device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        kernels.append(lambda: linear(left, right, None, "none", [], ""))
    with torch.no_grad():
        rates = [
            2 * size**3 / _fastest(kernel, device, clock) for kernel in kernels if _runs(kernel)
        ]
        images, filters = _layer(device, dtype)
        flops = 2 * images[:, 0].numel() * filters.numel()
        seconds = _fastest(lambda: torch.conv2d(images, filters, padding=1), device, clock)
        return max(*rates, flops / seconds)


def _runs(kernel: Callable[[], object]) -> bool:
    try:
        kernel()
    except RuntimeError:
        return False
    return True


def _layer(device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and filters of a convolution that computes about as much as the products."""
    rows, channels, extent = _LAYER[_kind(device)]
    images = torch.rand(rows, channels, extent, extent, device=device, dtype=dtype)
    filters = torch.rand(channels, channels, 3, 3, device=device, dtype=dtype)
    last = torch.channels_last
    return images.contiguous(memory_format=last), filters.contiguous(memory_format=last)


def _fastest(work: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start = clock()
        work()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        best = min(best, clock() - start)
    return best


def _kind(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else "accelerator"
