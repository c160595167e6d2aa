"""Elementwise functions of one variable, and a few with an optional attribute."""

from __future__ import annotations

from refluid.build import op
from refluid.fluid.layers.layer_function_generator import unary
from refluid.ir.variable import Variable

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cumsum",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_shrink",
    "logsigmoid",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "softplus",
    "softshrink",
    "softsign",
    "sqrt",
    "square",
    "tanh",
    "tanh_shrink",
    "thresholded_relu",
]

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


def hard_shrink(x: Variable, threshold: float | None = None) -> Variable:
    """x where |x| > threshold (0.5), else 0."""
    return op("hard_shrink", {"X": x}, {"threshold": threshold})


def softshrink(x: Variable, alpha: float | None = None) -> Variable:
    """x moved towards 0 by alpha (0.5), and 0 within that distance of it."""
    return op("softshrink", {"X": x}, {"lambda": alpha})


def thresholded_relu(x: Variable, threshold: float | None = None) -> Variable:
    """x where x > threshold (1.0), else 0."""
    return op("thresholded_relu", {"X": x}, {"threshold": threshold})


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the normal distribution function of x; by a tanh formula if `approximate`."""
    return op("gelu", {"X": x}, {"approximate": approximate})


def erf(x: Variable) -> Variable:
    """The error function."""
    return op("erf", {"X": x})
