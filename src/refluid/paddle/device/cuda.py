"""`paddle.device.cuda`: what a GPU is, and what its memory is used for."""

from __future__ import annotations

from typing import Any

import torch

from refluid.core.places import get_cuda_device_count, is_compiled_with_cuda
from refluid.paddle.device.streams import (
    Event,
    Stream,
    current_stream,
    gpu_of,
    stream_guard,
    synchronize,
)

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "stream_guard",
    "synchronize",
]


def _gpu(device: Any, name: str) -> torch.device:
    if not is_compiled_with_cuda():
        raise ValueError(
            f"paddle.device.cuda.{name} needs a GPU, and PyTorch finds none here; ask "
            "paddle.device.cuda.device_count() before"
        )
    return gpu_of(device, name).device


def device_count() -> int:
    """GPUs here."""
    return get_cuda_device_count()


def empty_cache() -> None:
    """Gives memory that no value uses back to the GPU; nothing without one."""
    if is_compiled_with_cuda():
        torch.cuda.empty_cache()


def max_memory_allocated(device: Any = None) -> int:
    """Most bytes that values took; ValueError without a GPU."""
    return torch.cuda.max_memory_allocated(_gpu(device, "max_memory_allocated"))


def max_memory_reserved(device: Any = None) -> int:
    """Most bytes that were taken from the GPU; ValueError without one."""
    return torch.cuda.max_memory_reserved(_gpu(device, "max_memory_reserved"))


def memory_allocated(device: Any = None) -> int:
    """Bytes that values take; ValueError without a GPU."""
    return torch.cuda.memory_allocated(_gpu(device, "memory_allocated"))


def memory_reserved(device: Any = None) -> int:
    """Bytes that are taken from the GPU; ValueError without one."""
    return torch.cuda.memory_reserved(_gpu(device, "memory_reserved"))


def get_device_properties(device: Any = None) -> Any:
    """Its name, `major` and `minor` version, `total_memory`, `multi_processor_count`.

    ValueError without a GPU.
    """
    found: Any = torch.cuda.get_device_properties(_gpu(device, "get_device_properties"))
    return found


def get_device_name(device: Any = None) -> str:
    """Its name; ValueError without a GPU."""
    return torch.cuda.get_device_name(_gpu(device, "get_device_name"))


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of what it can do; ValueError without a GPU."""
    return torch.cuda.get_device_capability(_gpu(device, "get_device_capability"))
