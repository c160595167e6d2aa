"""The kinds of places: the processor, GPUs, and accelerators that a plugin of torch brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from refluid.core.errors import EnforceNotMet

# torch keeps the number in a byte.
_LAST_DEVICE = 127
# What brings devices of these types.
_BRINGS = {
    "xpu": "a build of torch for Intel's GPUs",
    "npu": "the plugin torch_npu",
    "mlu": "the plugin torch_mlu",
    "ipu": "the plugin poptorch",
}
_only_cpu = False


def stay_on_cpu() -> None:
    """Has each place made from now on be the processor (`refluid run --place cpu`).

    The program is told of one GPU, since scripts ask before they use one.
    """
    global _only_cpu
    _only_cpu = True


def stays_on_cpu() -> bool:
    """Whether `stay_on_cpu` was called."""
    return _only_cpu


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
class CUDAPinnedPlace:
    """Host memory that a GPU can copy from directly."""

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here (pinned memory is the host's)."""
        return torch.device("cpu")

    def __str__(self) -> str:
        return "CUDAPinnedPlace"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class CUDAPlace:
    """The GPU with number `id`. It may be named without one; running on it then raises."""

    id: int = 0

    def __new__(cls, id: int = 0) -> CUDAPlace:  # noqa: ARG004
        """The processor where programs have to stay there."""
        return CPUPlace() if _only_cpu else object.__new__(cls)  # type: ignore[return-value]

    def __post_init__(self) -> None:
        _check_number("CUDAPlace", self.id)

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here."""
        return torch.device("cuda", self.id)

    def __str__(self) -> str:
        return f"CUDAPlace({self.id})"

    __repr__ = __str__


@dataclass(frozen=True, init=False)
class PluginPlace:
    """The accelerator with number `id` of a type that torch or a plugin of torch knows.

    It may be named where there is none; running on it then raises.
    """

    type: str
    id: int

    def __new__(cls, *_: Any, **__: Any) -> PluginPlace:
        """The processor where programs have to stay there."""
        return CPUPlace() if _only_cpu else object.__new__(cls)  # type: ignore[return-value]

    def __init__(self, type: str, id: int) -> None:
        _check_number(self.__class__.__name__, id)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "id", id)

    @property
    def device(self) -> torch.device:
        """The torch device of tensors that live here; EnforceNotMet where torch knows none."""
        try:
            return torch.device(self.type, self.id)
        except RuntimeError:
            raise EnforceNotMet(self.lacking()) from None

    def lacking(self) -> str:
        """What is missing where no such device can be used."""
        brings = _BRINGS.get(self.type, f"a plugin of torch that registers {self.type!r}")
        return (
            f"{self} cannot be used: PyTorch finds no device of type {self.type!r}, which {brings} "
            "would bring. `refluid run --place cpu SCRIPT` runs everything on the processor"
        )

    def __str__(self) -> str:
        return f"{self.__class__.__name__}({self.id})"

    __repr__ = __str__


class XPUPlace(PluginPlace):
    """The device `xpu` with number `id`: Intel's GPUs."""

    def __init__(self, id: int = 0) -> None:
        super().__init__("xpu", id)


class NPUPlace(PluginPlace):
    """The device `npu` with number `id`: Ascend processors, by torch_npu."""

    def __init__(self, id: int = 0) -> None:
        super().__init__("npu", id)


class MLUPlace(PluginPlace):
    """The device `mlu` with number `id`: Cambricon processors, by torch_mlu."""

    def __init__(self, id: int = 0) -> None:
        super().__init__("mlu", id)


class IPUPlace(PluginPlace):
    """The device `ipu`: Graphcore processors."""

    def __init__(self) -> None:
        super().__init__("ipu", 0)


class CustomPlace(PluginPlace):
    """The device with number `id` of any type that a plugin of torch registers."""

    def __init__(self, device_type: str, id: int = 0) -> None:
        if not isinstance(device_type, str) or not device_type.isidentifier():
            raise TypeError(f"CustomPlace takes the name of a device type, not {device_type!r}")
        super().__init__(device_type, id)

    def __str__(self) -> str:
        return f"CustomPlace({self.type!r}, {self.id})"

    __repr__ = __str__


Place = CPUPlace | CUDAPlace | CUDAPinnedPlace | PluginPlace


def devices_of(type: str) -> int:
    """How many devices of a type of torch's can be used; 0 where torch knows none."""
    module: Any = getattr(torch, type, None)
    if not hasattr(module, "device_count") or not hasattr(module, "is_available"):
        return 0
    return int(module.device_count()) if module.is_available() else 0


def _check_number(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name} takes a device number, not {number!r}")
    if not 0 <= number <= _LAST_DEVICE:
        raise EnforceNotMet(f"{name}({number}): device numbers are 0 to {_LAST_DEVICE}")
