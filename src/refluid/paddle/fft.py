"""`paddle.fft`: spectra of real and complex numbers, and what has them.

`norm` says which direction is divided by the number of elements: backward, forward, or ortho for
both by its root. Sizes `n` and `s` are those of the transformed dimensions (of the result, where
that is real): inputs are cut or filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.framework.dtypes import is_complex, usual
from refluid.paddle.tensor import complexes
from refluid.paddle.tensor.creation import to_tensor
from refluid.paddle.tensor.making import cast_to, dimension, is_floating, named, rank_of
from refluid.paddle.tensor.manipulation import roll

_Axes = Sequence[int] | None


class _Kind(NamedTuple):
    """A transform: its operator, its direction, and what it gives."""

    op_type: str
    forward: bool
    doc: str


_KINDS = {
    "fft": _Kind("fft_c2c", True, "The spectrum, complex"),
    "ifft": _Kind("fft_c2c", False, "What has the spectrum x, complex"),
    "rfft": _Kind("fft_r2c", True, "The first half of the spectrum of real x"),
    "irfft": _Kind("fft_c2r", False, "What has the spectrum of which x is the first half, real"),
    "hfft": _Kind("fft_c2r", True, "The spectrum, real, of what x is the first half of"),
    "ihfft": _Kind("fft_r2c", False, "The first half of what has the spectrum x, which is real"),
}


def _transform(kind: _Kind, x: Variable, sizes: Any, axes: Any, norm: str, name: Any) -> Variable:
    if norm not in ("forward", "backward", "ortho"):
        raise ValueError(f"Unexpected norm: {norm}. Norm should be forward, backward or ortho")
    sizes = [] if sizes is None else [int(one) for one in sizes]
    if any(one <= 0 for one in sizes):
        raise ValueError(f"Invalid FFT argument s({sizes}), it should be positive.")
    if axes is None:
        axes = range(-len(sizes), 0) if sizes else range(rank_of(x))
    axes = [dimension(x, one) for one in axes]
    if len({*axes}) < len(axes) or (sizes and len(sizes) != len(axes)):
        raise ValueError(f"FFT: sizes {sizes} and axes {axes} have to be as many, no axis twice")
    if kind.op_type == "fft_r2c":
        x = x if is_floating(x) or is_complex(x) else cast_to(x, usual(None))
        if is_complex(x):
            raise TypeError("FFT of real numbers: the input is complex")
    else:
        x = complexes.as_complex_type(x)
    attrs = {"axes": axes, "sizes": sizes, "normalization": norm, "forward": kind.forward}
    return op(kind.op_type, {"X": x}, attrs, name=name)


def _of_one(kind: _Kind) -> Callable[..., Variable]:
    def function(
        x: Variable,
        n: int | None = None,
        axis: int = -1,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return _transform(kind, x, None if n is None else [n], [axis], norm, name)

    return function


def _of_two(kind: _Kind) -> Callable[..., Variable]:
    def function(
        x: Variable,
        s: _Axes = None,
        axes: _Axes = (-2, -1),
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return _transform(kind, x, s, axes, norm, name)

    return function


def _of_any(kind: _Kind) -> Callable[..., Variable]:
    def function(
        x: Variable,
        s: _Axes = None,
        axes: _Axes = None,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return _transform(kind, x, s, axes, norm, name)

    return function


_FORMS = {
    "": (_of_one, "along dimension `axis`"),
    "2": (_of_two, "along two dimensions"),
    "n": (_of_any, "along `axes`, all dimensions by default"),
}


def _made(name: str) -> list[Callable[..., Variable]]:
    """A transform's functions: along one dimension, along two, along any."""
    kind = _KINDS[name]
    return [
        named(make(kind), name + form, f"{kind.doc}, {where}.", __name__)
        for form, (make, where) in _FORMS.items()
    ]


fft, fft2, fftn = _made("fft")
ifft, ifft2, ifftn = _made("ifft")
rfft, rfft2, rfftn = _made("rfft")
irfft, irfft2, irfftn = _made("irfft")
hfft, hfft2, hfftn = _made("hfft")
ihfft, ihfft2, ihfftn = _made("ihfft")


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The n frequencies of a spectrum, zero first, then negative ones; d: between samples."""
    return to_tensor(np.fft.fftfreq(n, d), usual(dtype))


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The n // 2 + 1 frequencies of the spectrum of n real samples, which are d apart."""
    return to_tensor(np.fft.rfftfreq(n, d), usual(dtype))


def _shifted(x: Variable, axes: Any, sign: int) -> Variable:
    axes = [axes] if isinstance(axes, int) else range(rank_of(x)) if axes is None else axes
    places = [dimension(x, one) for one in axes]
    shifts = [x.shape[one] // 2 if sign > 0 else -(x.shape[one] // 2) for one in places]
    return roll(x, shifts, places)


def fftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """x with frequency zero moved to the middle of dimensions, of all by default."""
    return _shifted(x, axes, 1)


def ifftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """What `fftshift` was given."""
    return _shifted(x, axes, -1)
