"""Functions of each element: of one variable, and of two that broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.math.elementwise import scale as fluid_scale
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import (
    OfOne,
    OfTwo,
    as_variable,
    both,
    cast_to,
    constant,
    is_floating,
    of_one,
    of_two,
)

_ONE = of_one(
    __name__,
    {
        "abs": ("abs", "|x|."),
        "acos": ("acos", "Inverse cosine of x in [-1, 1]."),
        "acosh": ("acosh", "Inverse hyperbolic cosine."),
        "asin": ("asin", "Inverse sine of x in [-1, 1]."),
        "asinh": ("asinh", "Inverse hyperbolic sine."),
        "atan": ("atan", "Inverse tangent."),
        "atanh": ("atanh", "Inverse hyperbolic tangent."),
        "ceil": ("ceil", "The least whole number not below x."),
        "cos": ("cos", "Cosine of x in radians."),
        "cosh": ("cosh", "Hyperbolic cosine."),
        "digamma": ("digamma", "Derivative of the logarithm of the gamma function."),
        "erf": ("erf", "The error function."),
        "erfinv": ("erfinv", "The inverse of the error function."),
        "exp": ("exp", "e to the power x."),
        "expm1": ("expm1", "e to the power x, minus 1."),
        "floor": ("floor", "The greatest whole number not above x."),
        "i0": ("i0", "Modified Bessel function of order 0."),
        "i0e": ("i0e", "Modified Bessel function of order 0, scaled."),
        "i1": ("i1", "Modified Bessel function of order 1."),
        "i1e": ("i1e", "Modified Bessel function of order 1, scaled."),
        "lgamma": ("lgamma", "Logarithm of the gamma function."),
        "log": ("log", "Natural logarithm."),
        "log10": ("log10", "Logarithm to the base of 10."),
        "log1p": ("log1p", "log(1 + x)."),
        "log2": ("log2", "Logarithm to the base of 2."),
        "reciprocal": ("reciprocal", "1 / x."),
        "rsqrt": ("rsqrt", "1 / sqrt(x) of x > 0."),
        "sigmoid": ("sigmoid", "1 / (1 + exp(-x))."),
        "sign": ("sign", "-1, 0 or 1."),
        "sin": ("sin", "Sine of x in radians."),
        "sinh": ("sinh", "Hyperbolic sine."),
        "sqrt": ("sqrt", "Square root of x >= 0."),
        "square": ("square", "x * x."),
        "tan": ("tan", "Tangent of x in radians."),
        "tanh": ("tanh", "Hyperbolic tangent."),
    },
)
_TESTS = of_one(
    __name__,
    {
        "isfinite": ("isfinite_v2", "Whether each element is neither infinite nor nan."),
        "isinf": ("isinf_v2", "Whether each element is infinite."),
        "isnan": ("isnan_v2", "Whether each element is nan."),
    },
    VarType.BOOL,
)
_TWO = of_two(
    __name__,
    {
        "add": ("elementwise_add", "x + y."),
        "atan2": ("atan2", "The angle of the point (y, x)."),
        "divide": ("elementwise_div", "x / y."),
        "floor_divide": ("floor_divide", "The greatest whole number not above x / y."),
        "fmax": ("elementwise_fmax", "The greater, or the one that is a number."),
        "fmin": ("elementwise_fmin", "The smaller, or the one that is a number."),
        "gcd": ("gcd", "Greatest common divisor."),
        "heaviside": ("elementwise_heaviside", "0 where x < 0, 1 where x > 0, else y."),
        "lcm": ("lcm", "Least common multiple."),
        "logaddexp": ("logaddexp", "log(exp(x) + exp(y))."),
        "maximum": ("elementwise_max", "The greater."),
        "minimum": ("elementwise_min", "The smaller."),
        "multiply": ("elementwise_mul", "x * y."),
        "remainder": ("remainder", "x - floor(x / y) * y."),
        "subtract": ("elementwise_sub", "x - y."),
    },
)

abs: OfOne = _ONE["abs"]
acos: OfOne = _ONE["acos"]
acosh: OfOne = _ONE["acosh"]
asin: OfOne = _ONE["asin"]
asinh: OfOne = _ONE["asinh"]
atan: OfOne = _ONE["atan"]
atanh: OfOne = _ONE["atanh"]
ceil: OfOne = _ONE["ceil"]
cos: OfOne = _ONE["cos"]
cosh: OfOne = _ONE["cosh"]
digamma: OfOne = _ONE["digamma"]
erf: OfOne = _ONE["erf"]
erfinv: OfOne = _ONE["erfinv"]
exp: OfOne = _ONE["exp"]
expm1: OfOne = _ONE["expm1"]
floor: OfOne = _ONE["floor"]
i0: OfOne = _ONE["i0"]
i0e: OfOne = _ONE["i0e"]
i1: OfOne = _ONE["i1"]
i1e: OfOne = _ONE["i1e"]
lgamma: OfOne = _ONE["lgamma"]
log: OfOne = _ONE["log"]
log10: OfOne = _ONE["log10"]
log1p: OfOne = _ONE["log1p"]
log2: OfOne = _ONE["log2"]
reciprocal: OfOne = _ONE["reciprocal"]


def round(x: Variable, name: str | None = None) -> Variable:
    """The nearest whole number; of two the one that is farther from 0."""
    cut = op("trunc", {"X": x})
    rest = op("abs", {"X": op("elementwise_sub", {"X": x, "Y": cut})})
    farther = cast_to(op("greater_equal", {"X": rest, "Y": constant(0.5, x.dtype)}), x.dtype)
    step = op("elementwise_mul", {"X": op("sign", {"X": x}), "Y": farther})
    return op("elementwise_add", {"X": cut, "Y": step}, name=name)


rsqrt: OfOne = _ONE["rsqrt"]
sigmoid: OfOne = _ONE["sigmoid"]
sign: OfOne = _ONE["sign"]
sin: OfOne = _ONE["sin"]
sinh: OfOne = _ONE["sinh"]
sqrt: OfOne = _ONE["sqrt"]
square: OfOne = _ONE["square"]
tan: OfOne = _ONE["tan"]
tanh: OfOne = _ONE["tanh"]
isfinite: OfOne = _TESTS["isfinite"]
isinf: OfOne = _TESTS["isinf"]
isnan: OfOne = _TESTS["isnan"]
add: OfTwo = _TWO["add"]
atan2: OfTwo = _TWO["atan2"]
divide: OfTwo = _TWO["divide"]
floor_divide: OfTwo = _TWO["floor_divide"]
fmax: OfTwo = _TWO["fmax"]
fmin: OfTwo = _TWO["fmin"]
gcd: OfTwo = _TWO["gcd"]
heaviside: OfTwo = _TWO["heaviside"]
lcm: OfTwo = _TWO["lcm"]
logaddexp: OfTwo = _TWO["logaddexp"]
maximum: OfTwo = _TWO["maximum"]
minimum: OfTwo = _TWO["minimum"]
multiply: OfTwo = _TWO["multiply"]
remainder: OfTwo = _TWO["remainder"]
subtract: OfTwo = _TWO["subtract"]
floor_mod = mod = remainder


def pow(x: Any, y: Any, name: str | None = None) -> Variable:
    """x to the power y, a number or a variable."""
    if isinstance(y, int | float):
        return op("pow", {"X": x}, {"factor": float(y)}, name=name)
    return op("elementwise_pow", {"X": x, "Y": y}, name=name)


def neg(x: Variable, name: str | None = None) -> Variable:
    """-x."""
    return fluid_scale(x, scale=-1.0, name=name)


def scale(
    x: Variable,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """x * scale + bias, or (x + bias) * scale; `scale` a number or a variable of one element."""
    return fluid_scale(x, scale, bias, bias_after_scale, act, name)


def trunc(input: Variable, name: str | None = None) -> Variable:
    """The nearest whole number towards zero."""
    return op("trunc", {"X": input}, name=name)


def frac(x: Variable, name: str | None = None) -> Variable:
    """What is after the point."""
    return subtract(x, trunc(x))


def deg2rad(x: Variable, name: str | None = None) -> Variable:
    """Degrees as radians."""
    return _times(x, math.pi / 180, name)


def rad2deg(x: Variable, name: str | None = None) -> Variable:
    """Radians as degrees."""
    return _times(x, 180 / math.pi, name)


def _times(x: Variable, factor: float, name: str | None) -> Variable:
    x = x if is_floating(x) else cast_to(x, VarType.FP32)
    return fluid_scale(x, factor, name=name)


def logit(x: Variable, eps: float | None = None, name: str | None = None) -> Variable:
    """log(x / (1 - x)), x being kept between eps and 1 - eps."""
    return op("logit", {"X": x}, {"eps": 0.0 if eps is None else eps}, name=name)


def stanh(
    x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Variable:
    """scale_b * tanh(scale_a * x)."""
    return op("stanh", {"X": x}, {"scale_a": scale_a, "scale_b": scale_b}, name=name)


def clip(x: Variable, min: Any = None, max: Any = None, name: str | None = None) -> Variable:
    """x kept in [min, max]; None for no bound. Bounds are numbers or variables of one element."""
    if not is_floating(x):
        low = None if min is None else maximum(x, min)
        bounded = x if low is None else low
        return bounded if max is None else minimum(bounded, max)
    inputs: dict[str, Any] = {"X": x}
    attrs = {"min": -_GREATEST, "max": _GREATEST}
    for slot, bound in (("Min", min), ("Max", max)):
        if isinstance(bound, Variable):
            inputs[slot] = bound
        elif bound is not None:
            attrs[slot.lower()] = float(bound)
    return op("clip", inputs, attrs, name=name)


_GREATEST = 3.4028234663852886e38


def lerp(x: Variable, y: Variable, weight: Any, name: str | None = None) -> Variable:
    """x + weight * (y - x)."""
    _, of = both(x, weight)
    return op("lerp", {"X": x, "Y": y, "Weight": of}, name=name)


def add_n(inputs: Sequence[Variable] | Variable, name: str | None = None) -> Variable:
    """The sum of variables of one shape."""
    return op("sum", {"X": inputs}, name=name)


def increment(x: Variable, value: float = 1.0, name: str | None = None) -> Variable:
    """Adds to a variable of one element, in place."""
    return op("increment", {"X": x}, {"step": float(value)}, out=x)


def multiplex(inputs: Sequence[Variable], index: Variable, name: str | None = None) -> Variable:
    """Row i of the variable that row i of `index` names."""
    return op("multiplex", {"X": inputs, "Ids": index}, name=name)


def nan_to_num(
    x: Variable,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    name: str | None = None,
) -> Variable:
    """x with other numbers for nan and for what is infinite."""
    high = _GREATEST if posinf is None else posinf
    low = -_GREATEST if neginf is None else neginf
    zero = as_variable([0.0])
    x = _filled(x, isnan(x), nan)
    infinite, positive = isinf(x), op("greater_than", {"X": x, "Y": zero}, dtype=VarType.BOOL)
    upper = op("logical_and", {"X": infinite, "Y": positive}, dtype=VarType.BOOL)
    return _filled(_filled(x, upper, high), isinf(_filled(x, upper, high)), low)


def _filled(x: Variable, mask: Variable, value: float) -> Variable:
    return op("fill_where", {"X": x, "Mask": mask}, {"value": value}, dtype=x.dtype)
