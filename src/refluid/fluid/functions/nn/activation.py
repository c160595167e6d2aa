"""Activations that take arguments, and softmax."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import as_dtype
from refluid.core.notices import tell_once
from refluid.fluid.functions.math.generated import unary
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

relu = unary("relu", "max(x, 0).")
log = unary("log", "Natural logarithm of x > 0.")


def _with(op_type: str, x: Variable, name: str | None, **attrs: Any) -> Variable:
    return op(op_type, {"X": x}, attrs, name=name)


def softmax(
    input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1
) -> Variable:
    """exp(x) divided by its sum along `axis`."""
    return _with("softmax", input, name, axis=axis, use_cudnn=use_cudnn)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """max(x, alpha x)."""
    return _with("leaky_relu", x, name, alpha=alpha)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where positive, else alpha (exp(x) - 1)."""
    return _with("elu", x, name, alpha=alpha)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """min(max(x, 0), threshold)."""
    return _with("relu6", x, name, threshold=threshold)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power `factor`, a number or a variable of shape (1,)."""
    if not isinstance(factor, Variable):
        return _with("pow", x, name, factor=factor)
    factor.stop_gradient = True
    return op("pow", {"X": x, "FactorTensor": factor}, name=name)


def stanh(
    x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None
) -> Variable:
    """scale_b tanh(scale_a x)."""
    return _with("stanh", x, name, scale_a=scale_a, scale_b=scale_b)


def hard_sigmoid(
    x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None
) -> Variable:
    """slope x + offset, cut to [0, 1]."""
    return _with("hard_sigmoid", x, name, slope=slope, offset=offset)


def hard_swish(
    x: Variable,
    threshold: float = 6.0,
    scale: float = 6.0,
    offset: float = 3.0,
    name: str | None = None,
) -> Variable:
    """x min(max(x + offset, 0), threshold) / scale."""
    return _with("hard_swish", x, name, threshold=threshold, scale=scale, offset=offset)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x / (1 + exp(-x)). As in Fluid 1.8.5, `beta` has no effect: a warning in the log says so."""
    if beta != 1.0:
        tell_once("swish: Fluid 1.8.5 ignores beta and computes with 1, and so does refluid")
    return _with("swish", x, name)


def brelu(
    x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None
) -> Variable:
    """x cut to [t_min, t_max]."""
    return _with("brelu", x, name, t_min=t_min, t_max=t_max)


def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """log(1 + exp(x cut to [-threshold, threshold]))."""
    return _with("soft_relu", x, name, threshold=threshold)


def selu(
    x: Variable, scale: float | None = None, alpha: float | None = None, name: str | None = None
) -> Variable:
    """scale x where positive, else scale alpha (exp(x) - 1)."""
    return _with("selu", x, name, scale=scale, alpha=alpha)


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """The maximum over each of the groups of `groups` channels; ValueError for another axis."""
    if axis not in (1, -1, 3):
        raise ValueError(f"maxout: axis must be 1 (NCHW), 3 or -1 (NHWC), not {axis}")
    return _with("maxout", x, name, groups=groups, axis=3 if axis == -1 else axis)


def prelu(x: Variable, mode: str, param_attr: Any = None, name: str | None = None) -> Variable:
    """x where positive, else x times a trained slope that starts at 0.25.

    mode: one slope for "all", one per "channel" of (N, C, ...), or one per "element" of a sample.
    """
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    shapes = {
        "all": [1],
        "channel": [1, *x.shape[1:2], 1, 1],
        "element": [1, *x.shape[1:]],
    }
    if mode not in shapes:
        raise ValueError(f"prelu: mode must be all, channel or element, not {mode!r}")
    slope = helper.create_parameter(
        helper.param_attr, shapes[mode], "float32", default_initializer=Constant(0.25)
    )
    return op("prelu", {"X": x, "Alpha": slope}, {"mode": mode}, layer=helper)


def mish(x: Variable, threshold: float = 20, name: str | None = None) -> Variable:
    """x tanh(softplus(x)), softplus being x above `threshold` and exp(x) below its negative."""
    if not isinstance(threshold, int | float):
        raise TypeError(f"mish: threshold must be a number, not {threshold!r}")
    return _with("mish", x, name, threshold=float(threshold))


def log_softmax(
    input: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """The logarithm of the softmax along `axis` (the last), computed in `dtype` if given."""
    helper = LayerHelper("log_softmax", name=name)
    if dtype is not None:
        kinds = {"in_dtype": int(input.dtype), "out_dtype": int(as_dtype(dtype))}
        input = op("cast", {"X": input}, kinds, dtype=as_dtype(dtype), layer=helper)
    attrs = {"axis": -1 if axis is None else axis, "use_cudnn": False}
    return op("log", {"X": op("softmax", {"X": input}, attrs, layer=helper)}, layer=helper)


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
