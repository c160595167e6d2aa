"""Functions on complex numbers from those on their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.fluid import layers
from refluid.ir.complex_variable import ComplexVariable
from refluid.ir.variable import Variable
from refluid.paddle.complex.helper import complex_variable_exists

Real = Callable[..., Any]


def parts(x: Any) -> tuple[Variable, Variable]:
    """The real and the imaginary part; of a real variable that is 0."""
    if isinstance(x, ComplexVariable):
        return x.real, x.imag
    return x, layers.zeros_like(x)


def of_each(function: Real, x: Any, name: str) -> ComplexVariable:
    """What is computed of each part alone."""
    complex_variable_exists([x], name)
    return ComplexVariable(function(x.real), function(x.imag))


def of_both(function: Real, x: Any, y: Any, name: str) -> ComplexVariable:
    """f(x, y) of two, where f(a + ib, c + id) = f(a, c) + i f(b, d)."""
    complex_variable_exists([x, y], name)
    (a, b), (c, d) = parts(x), parts(y)
    return ComplexVariable(function(a, c), function(b, d))


def product(function: Real, x: Any, y: Any, name: str) -> ComplexVariable:
    """f(x, y) that is linear in each, as a product is."""
    complex_variable_exists([x, y], name)
    (a, b), (c, d) = parts(x), parts(y)
    if not isinstance(x, ComplexVariable):
        return ComplexVariable(function(a, c), function(a, d))
    if not isinstance(y, ComplexVariable):
        return ComplexVariable(function(a, c), function(b, c))
    real = layers.elementwise_sub(function(a, c), function(b, d))
    return ComplexVariable(real, layers.elementwise_add(function(a, d), function(b, c)))
