"""Where programs and functions run unless they are told."""

from __future__ import annotations

import re
from typing import Any

from refluid.core.places import (
    CPUPlace,
    CUDAPlace,
    Place,
    get_cuda_device_count,
    is_compiled_with_cuda,
    require_available,
)
from refluid.eager import mode

_chosen: Place | None = None


def expected_place() -> Place:
    """What `set_device` chose; else the first GPU where there is one, else the processor."""
    if _chosen is not None:
        return _chosen
    return CUDAPlace(0) if is_compiled_with_cuda() else CPUPlace()


def as_place(given: str | Place) -> Place:
    """The place of a name: `cpu`, `gpu`, `gpu:0`. ValueError for others."""
    if not isinstance(given, str):
        return given
    name = given.lower()
    if name == "cpu":
        return CPUPlace()
    found = re.fullmatch(r"gpu(?::(\d+))?", name)
    if found is None:
        raise ValueError(
            f"The device must be a string which is like 'cpu', 'gpu' or 'gpu:x', not {given!r}; "
            "refluid has no others"
        )
    return CUDAPlace(int(found[1] or 0))


def set_device(device: str) -> Place:
    """Has everything run on `cpu`, `gpu` or `gpu:x`; the place. EnforceNotMet where it is none."""
    global _chosen
    place = as_place(device)
    require_available(place)
    _chosen = place
    now = mode.current()
    if now is not None:
        mode.enter(place, now.promotes)
    return place


def get_device() -> str:
    """The name of the place where everything runs: `cpu`, `gpu:0`."""
    place = expected_place()
    return f"gpu:{place.id}" if isinstance(place, CUDAPlace) else "cpu"


def get_all_device_type() -> list[str]:
    """Kinds of devices here."""
    return ["cpu", "gpu"] if is_compiled_with_cuda() else ["cpu"]


def get_available_device() -> list[str]:
    """Names of the devices here."""
    return ["cpu", *(f"gpu:{number}" for number in range(get_cuda_device_count()))]


def is_compiled_with_rocm() -> bool:
    """Whether AMD's GPUs can be used: no."""
    return False


def is_compiled_with_cinn() -> bool:
    """Whether Paddle's compiler is there: no."""
    return False


def is_compiled_with_distribute() -> bool:
    """Whether several processes can train together."""
    return True


def is_compiled_with_xpu() -> bool:
    """Whether Kunlun's chips can be used: no."""
    return False


def is_compiled_with_ipu() -> bool:
    """Whether Graphcore's chips can be used: no."""
    return False


def is_compiled_with_npu() -> bool:
    """Whether Ascend's chips can be used: no."""
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Whether a device of another maker can be used: no."""
    return False


def get_cudnn_version() -> int | None:
    """The number of cuDNN's version, None without it."""
    import torch

    cudnn: Any = torch.backends.cudnn
    version: int | None = cudnn.version() if is_compiled_with_cuda() else None
    return version
