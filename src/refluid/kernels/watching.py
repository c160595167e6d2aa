"""Kernels watched as they are called, and what they say of themselves.

torch makes the object of a kernel when it is first looked for, and remembers where it lies without
holding it. Of two threads that look at once the second one's takes the place of the first one's,
which is freed; where torch remembers that one, the next watched call of the kernel ends the
process. So threads take turns (`make_each_once`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import RLock, local
from typing import TYPE_CHECKING, Any

import torch

from refluid.kernels.parts import part
from refluid.kernels.without_dynamo import call_plainly

if TYPE_CHECKING:
    from torch._ops import OpOverload as OpOverload
else:
    OpOverload = type(torch.ops.aten.add.Tensor)

_MODE = "torch.utils._python_dispatch.TorchDispatchMode"
_PLAINLY = "torch._C.DisableTorchFunction"
_SCHEMA = "torch.ops.aten.add.Tensor._schema"


class _NoMode:
    """What can't be entered."""

    def __enter__(self) -> None:
        raise RuntimeError(f"kernels can't be watched: this torch has no {_MODE}")

    def __exit__(self, *_error: object) -> None:
        """Never entered."""


_Mode: Any = part(_MODE, _NoMode)
# Within it no TorchFunctionMode sees what is called.
Unseen: Any = part(_PLAINLY, None)
# What listing the kernels of a step needs and this torch lacks.
LACKING = [name for name in (_MODE, _PLAINLY, _SCHEMA) if part(name, None) is None]


_making = RLock()  # what makes one may look for others
# How each class does it itself.
made_by: dict[Any, Callable[[Any, str], Any]] = {}


def make_each_once(kind: Any) -> None:
    """Threads take turns where objects of this class make an attribute that they keep."""
    make = made_by[kind] = kind.__getattr__

    def made(self: Any, name: str) -> Any:
        with _making:
            known = vars(self)
            return known[name] if name in known else make(self, name)

    kind.__getattr__ = made


for _kind in (part("torch._ops._OpNamespace", None), part("torch._ops.OpOverloadPacket", None)):
    if _kind is not None:
        make_each_once(_kind)


class _Watched(local):
    """How many modes watch the calls of a thread."""

    modes = 0


_watched = _Watched()


def is_watched() -> bool:
    """Whether a mode sees the kernels that this thread calls, and may go by their names."""
    return _watched.modes > 0


class DispatchMode(_Mode):  # type: ignore[misc]
    """torch's mode of that name, whose calls don't import TorchDynamo."""

    def __enter__(self) -> Any:
        _watched.modes += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        _watched.modes -= 1
        return super().__exit__(*error)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        call_plainly(cls.__torch_dispatch__)


@cache
def written_by(func: Any) -> tuple[tuple[int, str], ...]:
    """Position and name of each argument that a kernel writes to."""
    return tuple(
        (position, argument.name)
        for position, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@cache
def makes_several(func: Any) -> bool:
    """Whether a kernel returns several tensors, or a list of them."""
    returns = func._schema.returns
    return len(returns) > 1 or str(returns[0].type).startswith("List")


def name_of(func: Any) -> str:
    """The kernel's name without `aten::` and its overload: `mm`, `mkldnn::_linear_pointwise`."""
    packet = str(func.overloadpacket.__name__)
    return packet if func.namespace == "aten" else f"{func.namespace}::{packet}"


@cache
def gives_view(func: Any) -> bool:
    """Whether a kernel's result lies in the memory of an argument that it doesn't write to."""
    aliases = [one.alias_info for one in func._schema.returns if one.alias_info is not None]
    return func.overloadpacket.__name__ == "_unsafe_view" or any(not a.is_write for a in aliases)
