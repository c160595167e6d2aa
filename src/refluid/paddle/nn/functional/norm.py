"""Normalisation by parameters that are given."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional import pooling
from refluid.paddle.tensor import creation, linalg
from refluid.paddle.tensor import math as functions
from refluid.paddle.tensor.making import rank_of


def batch_norm(
    x: Variable,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Variable:
    """Batch normalisation over all dimensions but the channel's.

    training: by the batch's statistics, which the running ones follow; use_global_stats: by the
    running ones in any case, False: by the batch's in any case.
    """
    use_global = not training if use_global_stats is None else use_global_stats
    inputs = {
        "X": x,
        "Scale": creation.ones_like(running_mean) if weight is None else weight,
        "Bias": creation.zeros_like(running_mean) if bias is None else bias,
        "Mean": running_mean,
        "Variance": running_var,
    }
    attrs = {
        "momentum": momentum,
        "epsilon": epsilon,
        "is_test": not training and x.stop_gradient,  # which has no gradient
        "data_layout": "NHWC" if data_format[-1] == "C" and len(data_format) > 2 else "NCHW",
        "use_global_stats": use_global,
        "trainable_statistics": use_global_stats is False,
    }
    makes = {
        "Y": None,
        "MeanOut": running_mean,
        "VarianceOut": running_var,
        "SavedMean": running_mean.dtype,
        "SavedVariance": running_mean.dtype,
    }
    stops = ("SavedMean", "SavedVariance")
    return op("batch_norm", inputs, attrs, makes, stop_gradient=stops, name=name)[0]


def layer_norm(
    x: Variable,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Variable:
    """Normalisation over the last dimensions, which have to be of that shape."""
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    first = rank_of(x) - len(sizes)
    if list(x.shape[first:]) != sizes:
        raise ValueError(
            f"Given normalized_shape is {sizes}, expected input with shape [*, {str(sizes)[1:]}, "
            f"but got input shape {list(x.shape)}"
        )
    flat = {"shape": [math.prod(sizes)]}
    given = {
        slot: one if one is None or rank_of(one) == 1 else op("reshape2", {"X": one}, flat)
        for slot, one in (("Scale", weight), ("Bias", bias))
    }
    attrs = {"epsilon": epsilon, "begin_norm_axis": first}
    makes = ("Y", "Mean", "Variance")
    stops = ("Mean", "Variance")
    return op("layer_norm", {"X": x} | given, attrs, makes, stop_gradient=stops, name=name)[0]


def instance_norm(
    x: Variable,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: Variable | None = None,
    bias: Variable | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalisation of each channel of each sample. Running statistics aren't used."""
    channels = [x.shape[1]]
    inputs = {
        "X": x,
        "Scale": creation.ones(channels, x.dtype) if weight is None else weight,
        "Bias": creation.zeros(channels, x.dtype) if bias is None else bias,
    }
    makes = ("Y", "SavedMean", "SavedVariance")
    stops = ("SavedMean", "SavedVariance")
    made = op("instance_norm", inputs, {"epsilon": eps}, makes, stop_gradient=stops, name=name)
    return made[0]


def group_norm(
    x: Variable,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Variable | None = None,
    bias: Variable | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalisation of groups of channels."""
    last = data_format[-1] == "C"
    channels = [x.shape[-1] if last else x.shape[1]]
    if channels[0] > 0 and channels[0] % num_groups:
        told = f"group_norm: {channels[0]} channels of x can't be divided into {num_groups} groups"
        raise ValueError(told)
    inputs = {
        "X": x,
        "Scale": creation.ones(channels, x.dtype) if weight is None else weight,
        "Bias": creation.zeros(channels, x.dtype) if bias is None else bias,
    }
    attrs = {"groups": num_groups, "epsilon": epsilon, "data_layout": "NHWC" if last else "NCHW"}
    makes = ("Y", "Mean", "Variance")
    stops = ("Mean", "Variance")
    return op("group_norm", inputs, attrs, makes, stop_gradient=stops, name=name)[0]


def local_response_norm(
    x: Variable,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """x / (k + alpha * the mean of the squares of `size` neighbouring channels)^beta."""
    if rank_of(x) != 4 or size % 2 == 0:
        return _by_windows(x, size, alpha, beta, k, data_format)
    attrs = {"n": size, "k": k, "alpha": alpha / size, "beta": beta, "data_format": data_format}
    return op("lrn", {"X": x}, attrs, ("Out", "MidOut"), stop_gradient=("MidOut",), name=name)[0]


def _by_windows(
    x: Variable, size: int, alpha: float, beta: float, k: float, data_format: str
) -> Variable:
    """`local_response_norm` of any rank and any number of channels, by averages of squares."""
    last = data_format[-1] == "C"
    shape = [0, 1, -1, x.shape[-1]] if last else [0, 1, x.shape[1], -1]
    squares = op("reshape2", {"X": op("square", {"X": x})}, {"shape": shape})
    around = [size // 2, (size - 1) // 2]
    paddings = [0, 0, 0, 0, *([0, 0, *around] if last else [*around, 0, 0])]
    padded = op("pad", {"X": squares}, {"paddings": paddings, "pad_value": 0.0})
    means = pooling.avg_pool2d(padded, [1, size] if last else [size, 1], stride=1)
    scaled = op("scale", {"X": means}, {"scale": alpha, "bias": k})
    divisor = op("pow", {"X": scaled}, {"factor": beta})
    divisor = op("reshape2", {"X": divisor}, {"shape": [-1, *x.shape[1:]]})
    return op("elementwise_div", {"X": x, "Y": divisor})


def normalize(
    x: Variable, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """x divided by its p-norm along `axis`, or by epsilon where that is greater."""
    if rank_of(x) == 1:
        axis = 0
    length = linalg.norm(x, float(p), axis, True)
    return functions.divide(x, functions.clip(length, min=epsilon))
