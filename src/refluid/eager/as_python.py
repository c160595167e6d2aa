"""A variable that has its value as Python and NumPy see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import torch

from refluid.core.dtypes import dtype_name
from refluid.eager.print_options import print_options

Array = npt.NDArray[Any]


class AsPython:
    """Conversions, sequence and text of a `VarBase`."""

    def item(self: Any, *place: int) -> Any:
        """The only element, or that at a place. ValueError if there are more."""
        return self.numpy().item(*place)

    def __float__(self: Any) -> float:
        return float(self.item())

    def __int__(self: Any) -> int:
        return int(self.item())

    def __bool__(self: Any) -> bool:
        """The value of a single element; of others whether there is a first one, as of a list.

        A variable without value is there, as in programs.
        """
        value = self.held
        if not isinstance(value, torch.Tensor):
            return True
        return bool(value.item()) if value.numel() == 1 else len(value) > 0

    def __index__(self: Any) -> int:
        return int(self.item())

    def __len__(self: Any) -> int:
        return len(self.tensor)

    def __iter__(self: Any) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Array:
        array: Array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self: Any) -> str:
        if not isinstance(self._value, torch.Tensor):
            return f"name {self.name}, not initialized"
        kind = dtype_name(self.dtype)
        with print_options():
            return f"name {self.name}, dtype: {kind} shape: {self.shape}\n{self.numpy()}"

    __str__ = __repr__

    def to_string(self: Any, throw_on_error: bool = False, with_details: bool = False) -> str:  # noqa: ARG002
        """Its name, element type, shape and values."""
        return repr(self)
