"""What a user feeds, checked against the program and turned into torch tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.arrays import (
    NUMBERS_ARE_STRONG,
    NoTensorElements,
    as_array,
    is_plain,
    plain,
)
from refluid.core.dtypes import (
    COMPLEX,
    VarType,
    as_dtype,
    dtype_name,
    is_known,
    to_numpy,
    to_torch,
)
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.core.values import LoDTensor
from refluid.ir.callstack import users_level
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of

# What was float32 before NumPy 2: a float32 array, and a number of NumPy's own.
_PROMOTED = (torch.float64, torch.float32) if NUMBERS_ARE_STRONG else None
_OF_NUMPY_2 = (
    ". NumPy 2 makes float64 of a float32 array and a number of its own (of np.sqrt, np.linspace): "
    "feed value.astype('float32')"
)


class FeedSlot:
    """One variable that is fed: converts and checks what the user gives for it.

    Raises ValueError for a wrong shape or element type, RuntimeError for nested lists, TypeError
    for what is no array of numbers.
    """

    def __init__(self, var: Variable, device: torch.device) -> None:
        self.name = var.name
        self.checked = bool(var.need_check_feed)  # not of fluid.layers.data, as in Fluid
        self.shape = var.shape
        self.column = _is_made_a_column(var)
        self.kind = var.dtype
        self.device = device
        self._numpy = None if self.kind == VarType.BF16 else to_numpy(self.kind)
        self._torch = to_torch(self.kind)
        self._known: tuple[Any, ...] = ()

    def convert(self, value: Any, *, sized: bool = True) -> tuple[Tensor, Levels]:
        """The value as tensor on the plan's device, and its LoD.

        sized: False takes other sizes than are declared too, but as many dimensions.
        """
        if type(value) is np.ndarray:
            layout = value.dtype, value.shape, value.strides
            if layout == self._known and value.flags.writeable:
                return torch.from_numpy(value), ()
            converted = self._convert(value, sized)
            if self.device.type == "cpu" and is_plain(value):
                self._known = layout
            return converted
        return self._convert(value, sized)

    def _convert(self, value: Any, sized: bool) -> tuple[Tensor, Levels]:
        lod: Levels = ()
        if isinstance(value, LoDTensor):
            if not value._is_initialized():
                raise EnforceNotMet(f"feed of {self.name!r}: the LoDTensor holds no data; set some")
            lod = value.levels
            tensor = value.tensor
        elif isinstance(value, Tensor):
            tensor = value.detach()
        else:
            tensor = self._from_array(value)
        if tensor.dtype != self._torch:
            self._check_elements(tensor)
        free = not sized and tensor.ndim == len(self.shape)
        if self.checked and not (free or self._fits(tuple(tensor.shape), bool(lod))):
            raise ValueError(
                f"The fed Variable {self.name!r} should have dimensions = {len(self.shape)}, "
                f"shape = {self.shape}, but received fed shape {list(tensor.shape)} on each device"
            )
        return (tensor if tensor.device == self.device else tensor.to(self.device)), lod

    def _check_elements(self, tensor: Tensor) -> None:
        if not is_known(tensor.dtype):
            raise NoTensorElements(
                f"feed of {self.name!r}: Fluid's tensors have no {tensor.dtype}; convert it"
            )
        if not self._is_real_enough(tensor.dtype):
            raise NoTensorElements(
                f"feed of {self.name!r}: the variable is {dtype_name(self.kind)}, not complex. "
                "Give the real and imaginary parts as two arrays, or declare it complex64"
            )
        if self.checked:
            raise ValueError(
                f"The data type of fed Variable {self.name!r} must be {dtype_name(self.kind)!r}, "
                f"but received {dtype_name(as_dtype(tensor.dtype))!r}"
                + (_OF_NUMPY_2 if (tensor.dtype, self._torch) == _PROMOTED else "")
            )

    def _is_real_enough(self, dtype: torch.dtype) -> bool:
        """Whether numbers are not complex, or the variable is."""
        return self.kind in COMPLEX or not dtype.is_complex

    def whole(self, value: Any, parts: int) -> Tensor | None:
        """The value as a tensor that falls into so many equal parts of neighbouring rows.

        None where it does not, or `convert` would not take each part.
        """
        if isinstance(value, np.ndarray):
            tensor = self._from_array(value)
        elif isinstance(value, Tensor):
            tensor = value.detach()
        elif isinstance(value, LoDTensor) and not value.levels:
            tensor = value.tensor
        else:
            return None
        size, *others = tensor.shape or (0,)
        part = (size // parts, *others)
        even = size and size % parts == 0 and tensor.device == self.device
        taken = tensor.dtype == self._torch and self._fits(part)
        known = is_known(tensor.dtype) and self._is_real_enough(tensor.dtype)
        taken = taken or (not self.checked and known)
        return tensor if even and taken else None

    def _fits(self, shape: tuple[int, ...], ragged: bool = False) -> bool:
        if _fits(shape, self.shape, ragged):
            return True
        return self.column and _fits((*shape, 1), self.shape)

    def _from_array(self, value: Any) -> Tensor:
        if not isinstance(value, np.ndarray):
            value = _as_array(value, self.name, self._numpy)
        return torch.from_numpy(plain(value, f"feed of {self.name!r}"))


def _is_made_a_column(var: Variable) -> bool:
    """Whether the program itself makes a column (N, 1) of the vector (N,) that is fed.

    `npair_loss` reshapes its labels in place: they are declared as what they become.
    """
    return var.shape[1:] == (1,) and any(
        "Out" in facts_of(op.type).views and op.input("X") == op.output("Out") == [var.name]
        for op in var.block.ops
    )


def _as_array(value: Any, name: str, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    if isinstance(value, list | tuple) and any(isinstance(item, LoDTensor) for item in value):
        raise TypeError(f"feed of {name!r}: give one LoDTensor, not a list of them")
    if isinstance(value, list) and any(isinstance(item, list | np.ndarray) for item in value):
        raise RuntimeError(
            "Some of your feed data hold LoD information. They can not be completely cast from a "
            f"list of Python ndarray to LoDTensor (variable {name!r}). Please convert data to "
            "LoDTensor with fluid.create_lod_tensor before feeding it."
        )
    array = as_array(value, f"feed of {name!r}")
    return array.astype(dtype) if dtype is not None and array.dtype.kind in "fiub" else array


def _fits(shape: tuple[int, ...], declared: Sequence[int], ragged: bool = False) -> bool:
    """Whether sizes are as declared, -1 being any, and so is the number of rows of sequences."""
    return len(shape) == len(declared) and all(
        want < 0 or want == size or (ragged and not place)
        for place, (size, want) in enumerate(zip(shape, declared, strict=True))
    )


def feed_slots(program: Program, feed: Iterable[str], device: torch.device) -> tuple[FeedSlot, ...]:
    """One slot per fed variable of the program; a name it doesn't have is a warning."""
    block = program.global_block()
    slots = []
    for name in feed:
        var = block.vars.get(name)
        if var is None:
            warnings.warn(
                f"The variable {name} is not found in program. It is not declared or is pruned.",
                UserWarning,
                stacklevel=users_level(),
            )
            continue
        slots.append(FeedSlot(var, device))
    return tuple(slots)
