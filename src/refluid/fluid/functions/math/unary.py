"""Elementwise functions of one variable, and a few with an optional attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.fluid.functions.math.generated import unary
from refluid.fluid.functions.tensor.assignment import assign
from refluid.ir.variable import Variable

sigmoid = unary("sigmoid", "1 / (1 + exp(-x)).")
logsigmoid = unary("logsigmoid", "log(1 / (1 + exp(-x))).")
exp = unary("exp", "e to the power x.")
tanh = unary("tanh", "Hyperbolic tangent.")
atan = unary("atan", "Inverse tangent.")
tanh_shrink = unary("tanh_shrink", "x - tanh(x).")
sqrt = unary("sqrt", "Square root of x >= 0.")
rsqrt = unary("rsqrt", "1 / sqrt(x) of x > 0.")
abs = unary("abs", "|x|.")
ceil = unary("ceil", "The least whole number not below x.")
floor = unary("floor", "The greatest whole number not above x.")
cos = unary("cos", "Cosine of x in radians.")
acos = unary("acos", "Inverse cosine of x in [-1, 1].")
sin = unary("sin", "Sine of x in radians.")
asin = unary("asin", "Inverse sine of x in [-1, 1].")
round = unary("round", "The nearest whole number.")
reciprocal = unary("reciprocal", "1 / x.")
square = unary("square", "x * x.")
softplus = unary("softplus", "log(1 + exp(x)).")
softsign = unary("softsign", "x / (1 + |x|).")


def cumsum(
    x: Variable,
    axis: int | None = None,
    exclusive: bool | None = None,
    reverse: bool | None = None,
) -> Variable:
    """Running sum along `axis` (the last), without the element itself if `exclusive`."""
    attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    return op("cumsum", {"X": x}, attrs)


def erf(x: Variable) -> Variable:
    """The error function."""
    return op("erf", {"X": x})


def sign(x: Variable | np.ndarray[Any, Any]) -> Variable:
    """-1, 0 or 1. x may be an array."""
    if isinstance(x, np.ndarray):
        x = assign(x)
    return op("sign", {"X": [x]})
