"""Sums, products and quotients of complex numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

from refluid.fluid import layers
from refluid.ir.complex_variable import ComplexVariable
from refluid.paddle.complex.helper import complex_variable_exists
from refluid.paddle.complex.tensor.parts import of_both, of_each, parts, product
from refluid.paddle.tensor import linalg

__all__ = [
    "elementwise_add",
    "elementwise_div",
    "elementwise_mul",
    "elementwise_sub",
    "kron",
    "sum",
    "trace",
]


def elementwise_add(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x + y; `axis` as of `fluid.layers.elementwise_add`. One of them may be real."""
    return of_both(partial(layers.elementwise_add, axis=axis), x, y, "elementwise_add")


def elementwise_sub(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x - y. One of them may be real."""
    return of_both(partial(layers.elementwise_sub, axis=axis), x, y, "elementwise_sub")


def elementwise_mul(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x y. One of them may be real."""
    return product(partial(layers.elementwise_mul, axis=axis), x, y, "elementwise_mul")


def elementwise_div(x: Any, y: Any, axis: int = -1, name: str | None = None) -> ComplexVariable:
    """x / y. One of them may be real."""
    complex_variable_exists([x, y], "elementwise_div")
    divide = partial(layers.elementwise_div, axis=axis)
    if not isinstance(y, ComplexVariable):
        return ComplexVariable(divide(x.real, y), divide(x.imag, y))
    c, d = parts(y)
    square = layers.elementwise_add(layers.square(c), layers.square(d))
    turned = ComplexVariable(c, layers.scale(d, -1.0))
    top = product(partial(layers.elementwise_mul, axis=axis), x, turned, "elementwise_div")
    return ComplexVariable(divide(top.real, square), divide(top.imag, square))


def kron(x: Any, y: Any, name: str | None = None) -> ComplexVariable:
    """Kronecker's product. One of them may be real."""
    return product(linalg.kron, x, y, "kron")


def trace(
    input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None
) -> ComplexVariable:
    """The sum along a diagonal of each matrix in dimensions `dim1` and `dim2`."""
    one = partial(linalg.trace, offset=offset, axis1=dim1, axis2=dim2)
    return of_each(one, input, "trace")


def sum(
    input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None
) -> ComplexVariable:
    """The sum over dimensions, over all unless some are given."""
    return of_each(partial(layers.reduce_sum, dim=dim, keep_dim=keep_dim), input, "reduce_sum")
