"""Complex numbers: made of real ones, and taken apart."""

from __future__ import annotations

from refluid.build import op
from refluid.core.dtypes import COMPLEX, VarType, as_dtype
from refluid.ir.variable import Variable
from refluid.paddle.framework.dtypes import is_complex
from refluid.paddle.tensor import math
from refluid.paddle.tensor.making import both, cast_to, is_floating, require

_COMPLEX = sorted(COMPLEX)
_REAL = (VarType.FP32, VarType.FP64)


def real(x: Variable, name: str | None = None) -> Variable:
    """The real parts. TypeError for real x."""
    require(x, _COMPLEX, "real")
    return op("real", {"X": x}, name=name)


def imag(x: Variable, name: str | None = None) -> Variable:
    """The imaginary parts. TypeError for real x."""
    require(x, _COMPLEX, "imag")
    return op("imag", {"X": x}, name=name)


def as_real(x: Variable, name: str | None = None) -> Variable:
    """x (..) as (.., 2): real and imaginary parts. TypeError for real x."""
    require(x, _COMPLEX, "as_real")
    return op("as_real", {"X": x}, name=name)


def as_complex(x: Variable, name: str | None = None) -> Variable:
    """x (.., 2) of float32 or float64 as complex numbers (..)."""
    require(x, _REAL, "as_complex")
    if x.shape[-1] != 2:
        raise ValueError(f"as_complex: the last dimension has to be of 2, not {x.shape[-1]}")
    return op("as_complex", {"X": x}, name=name)


def conj(x: Variable, name: str | None = None) -> Variable:
    """The conjugate of each number, which a real one is itself."""
    return op("conj", {"X": x}, name=name)


def angle(x: Variable, name: str | None = None) -> Variable:
    """The angle of each number in radians: 0 of positive ones, pi of negative ones."""
    require(x, [*_REAL, *_COMPLEX], "angle")
    return op("angle", {"X": x}, name=name)


def abs(x: Variable, name: str | None = None) -> Variable:
    """|x|, which is real."""
    return op("magnitude", {"X": x}, name=name) if is_complex(x) else math.abs(x, name)


def sgn(x: Variable, name: str | None = None) -> Variable:
    """x / |x|, and 0 of 0: -1, 0 or 1 of real numbers."""
    return op("sgn", {"X": x}, name=name) if is_complex(x) else math.sign(x, name)


def complex(real: Variable, imag: Variable, name: str | None = None) -> Variable:
    """real + i imag, which broadcast; both of float32 or of float64."""
    real, imag = both(real, imag)
    require(real, _REAL, "complex")
    require(imag, [as_dtype(real.dtype)], "complex")
    return op("complex", {"X": real, "Y": imag}, name=name)


def polar(abs: Variable, angle: Variable, name: str | None = None) -> Variable:
    """The complex numbers of these sizes and angles in radians."""
    return complex(math.multiply(abs, math.cos(angle)), math.multiply(abs, math.sin(angle)), name)


def as_complex_type(x: Variable) -> Variable:
    """x as complex numbers: of double precision where x is."""
    if is_complex(x):
        return x
    wide = x.dtype == VarType.FP64 and is_floating(x)
    return cast_to(x, VarType.COMPLEX128 if wide else VarType.COMPLEX64)


def eig(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """Complex eigenvalues (.., n), and vectors as columns, of square matrices (.., n, n)."""
    values, vectors = op("eig", {"X": x}, None, ("Eigenvalues", "Eigenvectors"), name=name)
    return values, vectors


def eigvals(x: Variable, name: str | None = None) -> Variable:
    """The complex eigenvalues (.., n) of square matrices (.., n, n)."""
    return op("eigvals", {"X": x}, name=name)
