"""Products of matrices of complex numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

from refluid.fluid import layers
from refluid.ir.complex_variable import ComplexVariable
from refluid.paddle.complex.tensor.parts import product

__all__ = ["matmul"]


def matmul(
    x: Any,
    y: Any,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> ComplexVariable:
    """alpha x y, as `fluid.layers.matmul`. One of them may be real."""
    real = partial(layers.matmul, transpose_x=transpose_x, transpose_y=transpose_y, alpha=alpha)
    return product(real, x, y, "matmul")
