"""Shapes of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from refluid.fluid import layers
from refluid.ir.complex_variable import ComplexVariable
from refluid.paddle.complex.tensor.parts import of_each

__all__ = ["reshape", "transpose"]


def reshape(
    x: Any, shape: Sequence[Any], inplace: bool = False, name: str | None = None
) -> ComplexVariable:
    """The numbers in another shape, as `fluid.layers.reshape`; `x` itself with `inplace`."""
    found = of_each(partial(layers.reshape, shape=shape, inplace=inplace), x, "reshape")
    if inplace:
        x.real, x.imag = found.real, found.imag
        return x  # type: ignore[no-any-return]
    return found


def transpose(x: Any, perm: Sequence[int], name: str | None = None) -> ComplexVariable:
    """Dimensions in the order of `perm`."""
    return of_each(partial(layers.transpose, perm=perm), x, "transpose")
