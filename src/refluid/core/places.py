"""Places: where values live and programs run, as Fluid names them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence

import torch

from refluid.core import flags
from refluid.core.bounds import MOST_PLACES, whole_number
from refluid.core.errors import EnforceNotMet
from refluid.core.place_kinds import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    MLUPlace,
    NPUPlace,
    Place,
    PluginPlace,
    XPUPlace,
    devices_of,
    stay_on_cpu,
    stays_on_cpu,
)

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CustomPlace",
    "IPUPlace",
    "MLUPlace",
    "NPUPlace",
    "Place",
    "XPUPlace",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "get_cuda_device_count",
    "is_compiled_with",
    "is_compiled_with_cuda",
    "place_of",
    "require_available",
    "stay_on_cpu",
]

_LOGGER = logging.getLogger("refluid")
_OTHERWISE = (
    "`refluid run --place cpu SCRIPT` runs everything on the processor, whatever place the script "
    "asks for; or use CPUPlace(), or install a CUDA build of torch on a machine with a GPU"
)
_BY_TYPE: dict[str, Callable[[int], Place]] = {
    "cuda": CUDAPlace,
    "xpu": XPUPlace,
    "npu": NPUPlace,
    "mlu": MLUPlace,
}


def is_compiled_with_cuda() -> bool:
    """Whether programs can run on a GPU here, or on what stands in for one."""
    return stays_on_cpu() or torch.cuda.is_available()


def get_cuda_device_count() -> int:
    """The number of GPUs that can be used; 0 without CUDA."""
    if stays_on_cpu():
        return 1
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def require_available(place: Place) -> None:
    """Raises EnforceNotMet if this machine does not have `place`, TypeError if it is no place."""
    if not isinstance(place, Place):
        raise TypeError(f"expected a place such as CPUPlace() or CUDAPlace(id), not {place!r}")
    if isinstance(place, CPUPlace) or stays_on_cpu():
        return
    if isinstance(place, PluginPlace):
        _require_device(place)
        return
    count = get_cuda_device_count()
    if count == 0:
        raise EnforceNotMet(f"{place} cannot be used: PyTorch finds no CUDA device. {_OTHERWISE}")
    if isinstance(place, CUDAPlace) and place.id >= count:
        raise EnforceNotMet(f"{place} cannot be used: this machine has {count} CUDA device(s)")


def _require_device(place: PluginPlace) -> None:
    count = devices_of(place.type)
    if not count:
        raise EnforceNotMet(place.lacking())
    if place.id >= count:
        raise EnforceNotMet(f"{place} cannot be used: this machine has {count} such device(s)")


def place_of(device: torch.device) -> Place:
    """The place of a torch device."""
    if device.type in ("cpu", "meta"):
        return CPUPlace()
    if device.type == "ipu":
        return IPUPlace()
    kind = _BY_TYPE.get(device.type)
    number = device.index or 0
    return CustomPlace(device.type, number) if kind is None else kind(number)


def is_compiled_with(device_type: str) -> bool:
    """Whether programs can run on devices of that type of torch's: "xpu", "npu", ..."""
    return devices_of(device_type) > 0


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """`device_count` CPU places; by default as many as the environment's CPU_NUM says, else 1."""
    return [CPUPlace()] * _host_count(device_count)


def cuda_pinned_places(device_count: int | None = None) -> list[CUDAPinnedPlace]:
    """`device_count` pinned places, counted like `cpu_places`; AssertionError without CUDA."""
    _assert_cuda()
    return [CUDAPinnedPlace()] * _host_count(device_count)


def cuda_places(device_ids: Sequence[int] | int | None = None) -> list[CUDAPlace]:
    """The given GPUs, or the one of a number; by default those of FLAGS_selected_gpus, else all.

    Raises AssertionError without CUDA, ValueError if FLAGS_selected_gpus is unreadable.
    """
    _assert_cuda()
    if device_ids is None:
        device_ids = _cuda_ids()
    elif isinstance(device_ids, int):
        device_ids = [device_ids]
    return [CUDAPlace(number) for number in device_ids]


def _assert_cuda() -> None:
    if not is_compiled_with_cuda():
        raise AssertionError(
            f"Not compiled with CUDA: PyTorch finds no CUDA device here. {_OTHERWISE}"
        )


def _cuda_ids() -> list[int]:
    # Launchers set the variable late, so a set flag comes first, then the environment of now.
    text = flags.value("selected_gpus") or flags.environment_str("FLAGS_selected_gpus", "") or ""
    if not text:
        return list(range(get_cuda_device_count()))
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"FLAGS_selected_gpus must look like 0,1 and not {text!r}") from None


def _host_count(device_count: int | None) -> int:
    if device_count is None:
        device_count = flags.environment_int("CPU_NUM")
    if device_count is None:
        _say_cpu_num_unset()
        return 1
    return whole_number("the number of CPU devices (CPU_NUM)", device_count, MOST_PLACES, 1)


@functools.cache
def _say_cpu_num_unset() -> None:
    _LOGGER.warning(
        "The CPU_NUM is not specified, so one CPU device is used. Set CPU_NUM in the environment "
        "to the number of devices (a program without data parallelism needs none)"
    )
