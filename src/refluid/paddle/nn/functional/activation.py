"""Activations."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.tensor import making
from refluid.paddle.tensor.making import OfOne, cast_to, dimension, rank_of

_ONE = making.of_one(
    __name__,
    {
        "log_sigmoid": ("logsigmoid", "log(1 / (1 + exp(-x)))."),
        "mish": ("mish", "x * tanh(log(1 + exp(x)))."),
        "relu": ("relu", "max(x, 0)."),
        "relu6": ("relu6", "min(max(x, 0), 6)."),
        "silu": ("swish", "x * sigmoid(x)."),
        "softsign": ("softsign", "x / (1 + |x|)."),
        "swish": ("swish", "x * sigmoid(x)."),
        "tanhshrink": ("tanh_shrink", "x - tanh(x)."),
    },
)
log_sigmoid: OfOne = _ONE["log_sigmoid"]
mish: OfOne = _ONE["mish"]
relu: OfOne = _ONE["relu"]
relu6: OfOne = _ONE["relu6"]
silu: OfOne = _ONE["silu"]
softsign: OfOne = _ONE["softsign"]
swish: OfOne = _ONE["swish"]
tanhshrink: OfOne = _ONE["tanhshrink"]


def _with(op_type: str, x: Variable, name: str | None, **attrs: Any) -> Variable:
    return op(op_type, {"X": x}, attrs, name=name)


def celu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). ZeroDivisionError for an alpha of 0."""
    if alpha == 0:
        raise ZeroDivisionError("alpha cannot be 0 for celu")
    return _with("celu", x, name, alpha=alpha)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x where positive, else alpha (exp(x) - 1)."""
    return _with("elu", x, name, alpha=alpha)


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """x * P(normal < x); approximate: by the formula with tanh."""
    return _with("gelu", x, name, approximate=approximate)


def hardshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x where |x| is above the threshold, else 0."""
    return _with("hard_shrink", x, name, threshold=threshold)


def hardsigmoid(
    x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Variable:
    """slope * x + offset kept in [0, 1]."""
    return _with("hard_sigmoid", x, name, slope=slope, offset=offset)


def hardswish(x: Variable, name: str | None = None) -> Variable:
    """x * min(max(x + 3, 0), 6) / 6."""
    return _with("hard_swish", x, name)


def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """x kept in [min, max]."""
    return _with("brelu", x, name, t_min=min, t_max=max)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x where positive, else negative_slope * x."""
    return _with("leaky_relu", x, name, alpha=negative_slope)


def prelu(
    x: Variable, weight: Variable, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """x where positive, else weight * x: one weight, or one for each channel."""
    count = weight.shape[0]
    if count != 1 and data_format[-1] == "C" and len(data_format) > 2:
        below = op("relu", {"X": op("scale", {"X": x}, {"scale": -1.0})})
        scaled = op("elementwise_mul", {"X": below, "Y": weight})
        return op("elementwise_sub", {"X": op("relu", {"X": x}), "Y": scaled}, name=name)
    if count != 1:
        weight = op("reshape2", {"X": weight}, {"shape": [1, -1] + [1] * (rank_of(x) - 2)})
    mode = "all" if count == 1 else "channel"
    return op("prelu", {"X": x, "Alpha": weight}, {"mode": mode}, name=name)


def rrelu(
    x: Variable,
    lower: float = 1.0 / 8.0,
    upper: float = 1.0 / 3.0,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """x where positive, else times a number of [lower, upper); their mean when not training."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2.0, name)
    from refluid.paddle.tensor.random import uniform

    shape = op("shape", {"Input": x}, dtype="int32")
    slopes = uniform(shape, x.dtype, lower, upper)
    negative = op("elementwise_mul", {"X": x, "Y": slopes})
    return op("elementwise_max", {"X": x, "Y": negative}, name=name)


def selu(
    x: Variable,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Variable:
    """scale * x where positive, else scale * alpha * (exp(x) - 1)."""
    return _with("selu", x, name, scale=scale, alpha=alpha)


def softplus(
    x: Variable, beta: float = 1, threshold: float = 20, name: str | None = None
) -> Variable:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    return _with("softplus_v2", x, name, beta=float(beta), threshold=float(threshold))


def softshrink(x: Variable, threshold: float = 0.5, name: str | None = None) -> Variable:
    """x moved towards zero by the threshold, and no further than zero."""
    return op("softshrink", {"X": x}, {"lambda": threshold}, name=name)


def thresholded_relu(x: Variable, threshold: float = 1.0, name: str | None = None) -> Variable:
    """x where it is above the threshold, else 0."""
    return _with("thresholded_relu", x, name, threshold=threshold)


def maxout(x: Variable, groups: int, axis: int = 1, name: str | None = None) -> Variable:
    """The greatest of each group of channels."""
    return _with("maxout", x, name, groups=groups, axis=axis)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along `axis`."""
    x = x if dtype is None else cast_to(x, dtype)
    return _with("softmax", x, name, axis=axis)


def log_softmax(
    x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None
) -> Variable:
    """Logarithm of the softmax along `axis`."""
    x = x if dtype is None else cast_to(x, dtype)
    return _with("log_softmax", x, name, axis=axis)


def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The first half along `axis` times the sigmoid of the second."""
    from refluid.paddle.tensor.manipulation import chunk

    first, second = chunk(x, 2, dimension(x, axis))
    return op("elementwise_mul", {"X": first, "Y": op("sigmoid", {"X": second})}, name=name)


def gumbel_softmax(
    x: Variable,
    temperature: float = 1.0,
    hard: bool = False,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """The softmax of x with Gumbel noise; hard: 1 for the greatest, with the softmax's gradient."""
    from refluid.paddle.tensor.random import uniform

    drawn = uniform(op("shape", {"Input": x}, dtype="int32"), x.dtype, 1e-10, 1.0)
    noise = op("scale", {"X": op("log", {"X": drawn})}, {"scale": -1.0})
    noise = op("scale", {"X": op("log", {"X": noise})}, {"scale": -1.0})
    noisy = op("elementwise_add", {"X": x, "Y": noise})
    soft = softmax(op("scale", {"X": noisy}, {"scale": 1.0 / temperature}), axis)
    if not hard:
        return soft
    top = op("reduce_max", {"X": soft}, {"dim": [axis], "keep_dim": True}, stop_gradient=True)
    chosen = cast_to(op("equal", {"X": soft, "Y": top}, dtype="bool"), x.dtype)
    rest = op("elementwise_sub", {"X": chosen, "Y": soft})
    rest.stop_gradient = True
    return op("elementwise_add", {"X": rest, "Y": soft}, name=name)
