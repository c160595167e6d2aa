"""What the machine can do at most: its matrix rate and its memory bandwidth, measured here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from refluid.kernels import onednn

_SIZE = {"cpu": 1024, "accelerator": 8192}
_LAYER = {"cpu": (8, 128, 28), "accelerator": (64, 512, 56)}
_BYTES = {"cpu": 1 << 27, "accelerator": 1 << 31}
_REPEATS = 12
# What is tried first has sides this many times smaller; what would take more seconds isn't tried.
_SMALLER, _LONGEST = 8, 0.25

# What is measured, and its floating-point operations.
Measurable = tuple[Callable[[], object], int]


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


def copy_rate(device: torch.device, held: int = 0) -> float:
    """Bytes per second read and written by a copy: a large one, or one that holds so many bytes
    with its result, which caches may keep."""
    size = held // 2 or _BYTES[_kind(device)]
    source = torch.zeros(max(1, size // 4), device=device)
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
    oneDNN has it, of convolutions. None is the fastest on every processor. Without instructions for
    `dtype` some can't compute it, which have no rate, and some take a thousand times as long.
    """
    with torch.no_grad():
        return max(_rate(partial(one, device, dtype), device, clock) for one in _KERNELS)


def _rate(
    prepared: Callable[[int], Measurable], device: torch.device, clock: Callable[[], float]
) -> float:
    """Of a large run; of a small one where the large one would take long, 0 where there is none."""
    try:
        work, flops = prepared(_SMALLER)
        rate = flops / _fastest(work, device, clock)
    except RuntimeError:
        return 0.0
    work, flops = prepared(1)
    return rate if flops > rate * _LONGEST else flops / _fastest(work, device, clock)


def _product(device: torch.device, dtype: torch.dtype, smaller: int) -> Measurable:
    size = _SIZE[_kind(device)] // smaller
    left = torch.rand(size, size, device=device, dtype=dtype)
    right, out = torch.rand_like(left), torch.empty_like(left)
    return (lambda: torch.mm(left, right, out=out)), 2 * size**3


def _linear(device: torch.device, dtype: torch.dtype, smaller: int) -> Measurable:
    linear = onednn.linear
    if not linear or device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        raise RuntimeError("oneDNN isn't there")
    size = _SIZE["cpu"] // smaller
    left, right = torch.rand(2, size, size, dtype=dtype)
    return (lambda: linear(left, right, None, "none", [], "")), 2 * size**3


def _convolution(device: torch.device, dtype: torch.dtype, smaller: int) -> Measurable:
    """About as much to compute as the products."""
    rows, channels, extent = _LAYER[_kind(device)]
    channels, extent = channels // smaller, extent // smaller
    images = torch.rand(rows, channels, extent, extent, device=device, dtype=dtype)
    filters = torch.rand(channels, channels, 3, 3, device=device, dtype=dtype)
    images, filters = (
        one.contiguous(memory_format=torch.channels_last) for one in (images, filters)
    )
    flops = 2 * images[:, 0].numel() * filters.numel()
    return (lambda: torch.conv2d(images, filters, padding=1)), flops


_KERNELS = (_product, _linear, _convolution)


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
