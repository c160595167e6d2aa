"""`ZeroCopyTensor`: an input or output of a predictor, written and read by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from refluid.core.dtypes import as_dtype, to_numpy
from refluid.core.errors import EnforceNotMet
from refluid.core.lod import Lod, lod_error
from refluid.fluid.inference.tensors import paddle_dtype


class ZeroCopyTensor:
    """An input (`copy_from_cpu`) or output (`copy_to_cpu`) of a predictor."""

    _kind_of: Callable[[np.dtype[Any]], Any] = staticmethod(paddle_dtype)

    def __init__(self, name: str, device: torch.device, *, is_input: bool) -> None:
        self._name, self._device, self._is_input = name, device, is_input
        self._on_cpu = device.type == "cpu"
        self._value: torch.Tensor | None = None
        # An input's memory on the host, which is the value itself where the model runs there.
        self._held: npt.NDArray[Any] | None = None
        self._own = torch.empty(0)
        self._shape: tuple[int, ...] | None = None
        self._lod: Lod = []

    def reshape(self, shape: Sequence[int]) -> None:
        """The shape of what will be copied from the CPU."""
        sizes = tuple(int(size) for size in shape)
        if any(size < 0 for size in sizes):
            raise EnforceNotMet(f"{self._name}.reshape: sizes are known, not {list(sizes)}")
        self._shape = sizes

    def copy_from_cpu(self, array: npt.NDArray[Any]) -> None:
        """Copies the array; as many of its numbers as the shape of `reshape` has, where it was set.

        Raises TypeError for what is no array, EnforceNotMet for an output, for another element
        type than float32, int64 and int32, and where the array has fewer numbers than the shape.
        """
        if not self._is_input:
            raise EnforceNotMet(f"{self._name} is an output; the predictor writes it")
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"{self._name}.copy_from_cpu takes a NumPy array, not {type(array).__name__}"
            )
        self._kind_of(array.dtype)
        shape = array.shape if self._shape is None else self._shape
        count = math.prod(shape)
        if array.size < count:
            raise EnforceNotMet(
                f"{self._name}.copy_from_cpu: the array has {array.size} numbers, the shape "
                f"{list(shape)} {count}; call reshape(array.shape) first"
            )
        numbers = array if array.shape == shape else array.reshape(-1)[:count].reshape(shape)
        held = self._held
        if held is None or held.shape != numbers.shape or held.dtype != numbers.dtype:
            self._held = held = np.empty(numbers.shape, numbers.dtype)
            self._own = torch.from_numpy(held)
        np.copyto(held, numbers)
        self._value = self._own if self._on_cpu else self._own.to(self._device)

    def copy_to_cpu(self) -> npt.NDArray[Any]:
        """A copy of the values; EnforceNotMet while there are none."""
        value = self._present()
        if self._on_cpu and value.dtype != torch.bfloat16:
            return value.numpy().copy()
        return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()

    def shape(self) -> list[int]:
        """The sizes; of an input those of `reshape` where nothing was copied since."""
        if self._is_input and self._shape is not None:
            return list(self._shape)
        return [] if self._value is None else list(self._value.shape)

    def set_lod(self, lod: Iterable[Iterable[int]]) -> None:
        """The sequence offsets of the input; EnforceNotMet if they don't fit one another."""
        offsets = [[int(offset) for offset in level] for level in lod]
        reason = lod_error(offsets, None)
        if reason:
            raise EnforceNotMet(f"{self._name}.set_lod: the LoD is invalid: {reason}")
        self._lod = offsets

    def lod(self) -> Lod:
        """The sequence offsets."""
        return [list(level) for level in self._lod]

    def type(self) -> Any:
        """The element type, a `PaddleDType`; EnforceNotMet while there are no values."""
        return self._kind_of(np.dtype(to_numpy(as_dtype(self._present().dtype))))

    def _present(self) -> torch.Tensor:
        if self._value is None:
            todo = "copy_from_cpu(array)" if self._is_input else "zero_copy_run()"
            raise EnforceNotMet(f"{self._name} has no values yet; call {todo} first")
        return self._value
