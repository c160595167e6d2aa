"""Arithmetic: elementwise operators on two variables, scale, clip, logic and comparison."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.math.generated import elementwise
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_BROADCAST = (
    "\n\nThe shape of y is a run of dimensions of x that starts at `axis` (-1: it ends where x "
    "ends).\nact: an activation applied to the result."
)
elementwise_add = elementwise("elementwise_add", "x + y." + _BROADCAST)
elementwise_sub = elementwise("elementwise_sub", "x - y." + _BROADCAST)
elementwise_mul = elementwise("elementwise_mul", "x * y." + _BROADCAST)
elementwise_div = elementwise("elementwise_div", "x / y." + _BROADCAST)
elementwise_max = elementwise("elementwise_max", "The greater of x and y." + _BROADCAST)
elementwise_min = elementwise("elementwise_min", "The lesser of x and y." + _BROADCAST)
elementwise_pow = elementwise("elementwise_pow", "x to the power y." + _BROADCAST)
elementwise_mod = elementwise("elementwise_mod", "x modulo y, whole numbers." + _BROADCAST)
elementwise_floordiv = elementwise(
    "elementwise_floordiv", "x / y rounded down, whole numbers." + _BROADCAST
)


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """scale x + bias, or scale (x + bias); `scale` may be a variable of shape (1,)."""
    helper = LayerHelper("scale", act=act, name=name)
    inputs, attrs = {"X": x}, {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        inputs["ScaleTensor"] = scale
    else:
        attrs["scale"] = float(scale)
    return helper.append_activation(op("scale", inputs, attrs, layer=helper))


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """x cut to [min, max]."""
    attrs = {"min": min, "max": max}
    return op("clip", {"X": x}, attrs, name=name)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """x scaled down so that its Euclidean norm is at most `max_norm`."""
    return op("clip_by_norm", {"X": x}, {"max_norm": max_norm}, name=name)


def _logical(
    op_type: str, inputs: dict[str, Any], out: Variable | None, name: str | None
) -> Variable:
    return op(op_type, inputs, dtype=VarType.BOOL, out=out, name=name)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Whether both are true, elementwise."""
    return _logical("logical_and", {"X": x, "Y": y}, out, name)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Whether either is true, elementwise."""
    return _logical("logical_or", {"X": x, "Y": y}, out, name)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Whether exactly one is true, elementwise."""
    return _logical("logical_xor", {"X": x, "Y": y}, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether it is false, elementwise."""
    return _logical("logical_not", {"X": x}, out, name)


def _test(op_type: str, x: Variable) -> Variable:
    """A variable declared as of x's type, as in Fluid; its value is bool."""
    out = op(op_type, {"X": x})
    out.describe(shape=out.shape, dtype=x.dtype)
    return out


def isfinite(x: Variable) -> Variable:
    """Whether all of `x` is finite; bool of shape (1,)."""
    return op("isfinite", {"X": x}, dtype=VarType.BOOL)


def has_inf(x: Variable) -> Variable:
    """Whether anything in `x` is infinite; shape (1,)."""
    return _test("isinf", x)


def has_nan(x: Variable) -> Variable:
    """Whether anything in `x` is no number; shape (1,)."""
    return _test("isnan", x)
