"""Where a step's time goes, by PyTorch operator: what both refluid and PyTorch run."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile, record_function

MOST = 6
OUTSIDE = "outside of operators"
_STEP = "benchmarked step"


def kernel_shares(
    step: Callable[[], object], device: torch.device, count: int = 5
) -> dict[str, float]:
    """Shares of `count` steps' time, largest first; on a GPU of the device's time.

    What no operator of PyTorch does (Python, refluid's own kernels) is under OUTSIDE. Profiling
    makes operators that take microseconds look larger than they are.
    """
    on_device = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])]
    with profile(activities=activities) as found, record_function(_STEP):
        for _ in range(count):
            step()
    times = {
        OUTSIDE if event.key == _STEP else event.key.removeprefix("aten::"): (
            event.self_device_time_total if on_device else event.self_cpu_time_total
        )
        for event in found.key_averages()
    }
    total = sum(times.values())
    largest = sorted(times, key=lambda name: times[name], reverse=True)[:MOST]
    return {name: round(times[name] / total, 3) for name in largest} if total else {}
