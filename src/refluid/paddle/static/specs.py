"""`InputSpec`: shape, element type and name of what a function is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.core.dtypes import VarType, as_dtype


class InputSpec:
    """What a function is given: -1 or None in `shape` is a size that may vary."""

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        self.shape = tuple(-1 if size is None else int(size) for size in shape)
        self.dtype: VarType = as_dtype(dtype)
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> InputSpec:
        """That of a variable."""
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray[Any, Any], name: str | None = None) -> InputSpec:
        """That of an array."""
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: Any) -> InputSpec:
        """Puts a size before all others; itself."""
        if isinstance(batch_size, list | tuple):
            if len(batch_size) != 1:
                raise ValueError(
                    f"Length of batch_size: {batch_size} shall be 1, but received "
                    f"{len(batch_size)}."
                )
            batch_size = batch_size[0]
        if not isinstance(batch_size, int):
            raise TypeError(f"type(batch_size) shall be `int`, but received {type(batch_size)}.")
        self.shape = (batch_size, *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Takes the first size away; itself. ValueError where there is none."""
        if not self.shape:
            raise ValueError("Not support to unbatch a InputSpec when len(shape) == 0.")
        self.shape = self.shape[1:]
        return self

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.stop_gradient

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name}, "
            f"stop_gradient={self.stop_gradient})"
        )
