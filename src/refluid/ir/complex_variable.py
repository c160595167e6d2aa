"""`ComplexVariable`: complex numbers of Fluid 1.8, a variable for each part."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable

_TYPES = {VarType.FP32: "complex64", VarType.FP64: "complex128"}


class ComplexVariable:
    """real + i imag, of equal shape and element type, float32 or float64."""

    def __init__(self, real: Variable, imag: Variable) -> None:
        assert tuple(real.shape) == tuple(imag.shape), (
            "The real part and imaginary part of a complex variable should be in the same shape."
        )
        assert real.dtype == imag.dtype, (
            "The real part and imaginary part of a complex variable should be the same data type."
        )
        if real.dtype not in _TYPES:
            raise TypeError(f"parts are float32 or float64, not {real.dtype!r}")
        self.real, self.imag = real, imag

    @property
    def dtype(self) -> str:
        """complex64 or complex128."""
        return _TYPES[self.real.dtype]

    @property
    def shape(self) -> Any:
        """Sizes of all dimensions."""
        return self.real.shape

    @property
    def name(self) -> dict[str, str]:
        """The names of its parts."""
        return {"real": self.real.name, "imag": self.imag.name}

    @name.setter
    def name(self, name: str) -> None:
        self.real.name, self.imag.name = f"{name}.real", f"{name}.imag"

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient reaches it."""
        return bool(self.real.stop_gradient and self.imag.stop_gradient)

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self.real.stop_gradient = self.imag.stop_gradient = stop

    def numpy(self) -> npt.NDArray[Any]:
        """The numbers, where operators run at once."""
        found: npt.NDArray[Any] = self.real.numpy() + 1j * self.imag.numpy()
        return found

    def __str__(self) -> str:
        return f"REAL: {self.real}IMAG: {self.imag}"

    __repr__ = __str__
