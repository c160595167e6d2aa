"""What a GPU did while profiling: its kernels and copies, as PyTorch's profiler sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from refluid.core import events
from refluid.core.writing import write_whole


@dataclass(frozen=True)
class KernelEvent:
    """A kernel or copy: nanoseconds of `events.clock`, device number, stream."""

    name: str
    start: int
    end: int
    device: int
    stream: int

    @property
    def copies(self) -> bool:
        """Whether it moves memory instead of computing."""
        return self.name.startswith(("Memcpy", "Memset"))


class KernelEvents:
    """Notes kernels from `start` to `stop`; none where there is no GPU."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self) -> None:
        """Begins."""
        if torch.cuda.is_available():
            self._profile = profile(activities=[ProfilerActivity.CUDA])
            self._profile.start()

    def stop(self) -> list[KernelEvent]:
        """Ends; the kernels since the start."""
        if self._profile is None:
            return []
        torch.cuda.synchronize()
        self._profile.stop()
        found = self._profile.profiler.kineto_results.events()
        self._profile = None
        return [
            KernelEvent(
                one.name(),
                one.start_ns() - events.EPOCH,
                one.start_ns() - events.EPOCH + one.duration_ns(),
                one.device_index(),
                one.device_resource_id(),
            )
            for one in found
            if one.device_type().name == "CUDA"
        ]

    def restart(self) -> None:
        """Forgets the kernels so far."""
        self.stop()
        self.start()


def write_kernels(kernels: Sequence[KernelEvent], path: Path, mode: str) -> None:
    """Writes kernels as comma-separated values ("csv") or as `key=value` ("kvp")."""
    fields = ("gpustarttimestamp", "gpuendtimestamp", "streamid", "method")
    rows = [(one.start, one.end, one.stream, one.name) for one in kernels]
    if mode == "csv":
        lines = [",".join(fields)]
        lines += [f'{start},{end},{stream},"{name}"' for start, end, stream, name in rows]
    else:
        lines = [
            " ".join(f"{key}={value}" for key, value in zip(fields, row, strict=True))
            for row in rows
        ]
    write_whole(path, "\n".join(lines) + "\n")
