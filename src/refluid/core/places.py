"""Places: where values live and programs run, as Fluid names them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from refluid.core import flags
from refluid.core.bounds import MOST_PLACES, whole_number
from refluid.core.errors import EnforceNotMet

_LOGGER = logging.getLogger("refluid")
# torch keeps the number in a byte.
_LAST_DEVICE = 127
_OTHERWISE = (
    "`refluid run --place cpu SCRIPT` runs everything on the processor, whatever place the script "
    "asks for; or use CPUPlace(), or install a CUDA build of torch on a machine with a GPU"
)
_only_cpu = False


def stay_on_cpu() -> None:
    """Has every CUDAPlace that is made from now on be the processor (`refluid run --place cpu`).

    The program is told of one GPU, since scripts ask before they use one.
    """
    global _only_cpu
    _only_cpu = True


@dataclass(frozen=True, slots=True)
class CPUPlace:
    """The processor."""

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here."""
        return torch.device("cpu")

    def __str__(self) -> str:
        return "CPUPlace"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class CUDAPlace:
    """The GPU with number `id`. It may be named without one; running on it then raises."""

    id: int = 0

    def __new__(cls, id: int = 0) -> CUDAPlace:  # noqa: ARG004
        """The processor where programs have to stay there."""
        return CPUPlace() if _only_cpu else object.__new__(cls)  # type: ignore[return-value]

    def __post_init__(self) -> None:
        if isinstance(self.id, bool) or not isinstance(self.id, int):
            raise TypeError(f"CUDAPlace takes a device number, not {self.id!r}")
        if not 0 <= self.id <= _LAST_DEVICE:
            raise EnforceNotMet(f"CUDAPlace({self.id}): device numbers are 0 to {_LAST_DEVICE}")

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here."""
        return torch.device("cuda", self.id)

    def __str__(self) -> str:
        return f"CUDAPlace({self.id})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class CUDAPinnedPlace:
    """Host memory that a GPU can copy from directly."""

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here (pinned memory is the host's)."""
        return torch.device("cpu")

    def __str__(self) -> str:
        return "CUDAPinnedPlace"

    __repr__ = __str__


Place = CPUPlace | CUDAPlace | CUDAPinnedPlace


def is_compiled_with_cuda() -> bool:
    """Whether programs can run on a GPU here, or on what stands in for one."""
    return _only_cpu or torch.cuda.is_available()


def get_cuda_device_count() -> int:
    """The number of GPUs that can be used; 0 without CUDA."""
    if _only_cpu:
        return 1
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def require_available(place: Place) -> None:
    """Raises EnforceNotMet if this machine does not have `place`, TypeError if it is no place."""
    if not isinstance(place, Place):
        raise TypeError(f"expected CPUPlace(), CUDAPlace(id) or CUDAPinnedPlace(), not {place!r}")
    if isinstance(place, CPUPlace) or _only_cpu:
        return
    count = get_cuda_device_count()
    if count == 0:
        raise EnforceNotMet(f"{place} cannot be used: PyTorch finds no CUDA device. {_OTHERWISE}")
    if isinstance(place, CUDAPlace) and place.id >= count:
        raise EnforceNotMet(f"{place} cannot be used: this machine has {count} CUDA device(s)")


def place_of(device: torch.device) -> Place:
    """The place of a torch device."""
    return CUDAPlace(device.index or 0) if device.type == "cuda" else CPUPlace()


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """`device_count` CPU places; by default as many as the environment's CPU_NUM says, else 1."""
    return [CPUPlace()] * _host_count(device_count)


def cuda_pinned_places(device_count: int | None = None) -> list[CUDAPinnedPlace]:
    """`device_count` pinned places, counted like `cpu_places`; AssertionError without CUDA."""
    _assert_cuda()
    return [CUDAPinnedPlace()] * _host_count(device_count)


def cuda_places(device_ids: Sequence[int] | None = None) -> list[CUDAPlace]:
    """The given GPUs; by default those of FLAGS_selected_gpus, else all.

    Raises AssertionError without CUDA, ValueError if FLAGS_selected_gpus is unreadable.
    """
    _assert_cuda()
    return [CUDAPlace(number) for number in (_cuda_ids() if device_ids is None else device_ids)]


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
