"""Convolutions: conv2d and conv2d_transpose, conv3d and conv3d_transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import check_variables, op
from refluid.fluid.functions.nn.windows import (
    Padding,
    is_channel_last,
    padding_attributes,
    per_dimension,
)
from refluid.fluid.initializer import Normal
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """2-D convolution of (N, C, H, W), or (N, H, W, C) for `data_format="NHWC"`.

    The filter has shape (num_filters, C / groups, kernel height, kernel width) and starts normal
    with variance 2 / (kernel height x kernel width x C). Raises ValueError for a channel number
    that `groups` doesn't divide, an unknown layout or padding.
    """
    return _convolve("conv2d", 4, locals())


def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """3-D convolution of (N, C, D, H, W), or (N, D, H, W, C) for `data_format="NDHWC"`.

    As `conv2d` with one more dimension.
    """
    return _convolve("conv3d", 5, locals())


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: Padding = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """The gradient of `conv2d` as a layer: scales (N, C, H, W) up.

    The filter has shape (C, num_filters / groups, kernel height, kernel width). Without
    `filter_size` it follows from `output_size`. ValueError where neither is given.
    """
    return _convolve_back("conv2d_transpose", 4, locals())


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: int | Sequence[int] | None = None,
    filter_size: int | Sequence[int] | None = None,
    padding: Padding = 0,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """The gradient of `conv3d` as a layer; as `conv2d_transpose` with one more dimension."""
    return _convolve_back("conv3d_transpose", 5, locals())


def _helper(op_type: str, given: dict[str, Any]) -> LayerHelper:
    """The helper, which knows the arguments that concern bias, activation and names."""
    kept = ("param_attr", "bias_attr", "use_cudnn", "act", "name")
    return LayerHelper(op_type, **{name: given[name] for name in kept})


def _channels(given: dict[str, Any], rank: int, where: str) -> tuple[int, bool]:
    check_variables(where, {"input": given["input"]})
    var: Variable = given["input"]
    last = is_channel_last(given["data_format"], rank, where)
    channels = var.shape[-1 if last else 1] if len(var.shape) == rank else -1
    if channels < 1:
        raise ValueError(
            f"{where}: input {var.name} must have {rank} dimensions and a known number of "
            f"channels, its shape is {list(var.shape)}"
        )
    return channels, last


def _attributes(given: dict[str, Any], rank: int, last: bool, where: str) -> dict[str, Any]:
    spatial = rank - 2
    if not isinstance(given["use_cudnn"], bool):
        raise ValueError(f"{where}: use_cudnn must be True or False, not {given['use_cudnn']!r}")
    groups = 1 if given["groups"] is None else given["groups"]
    if groups < 1:
        raise ValueError(f"{where}: groups must be greater than 0, not {groups}")
    return {
        "strides": per_dimension(given["stride"], spatial, "stride"),
        "dilations": per_dimension(given["dilation"], spatial, "dilation"),
        "groups": groups,
        "use_cudnn": given["use_cudnn"],
        "data_format": given["data_format"],
    } | padding_attributes(given["padding"], spatial, last, where)


def _finish(helper: LayerHelper, out: Variable, last: bool) -> Variable:
    rank = len(out.shape)
    start = rank - 1 if last else 1
    return helper.append_activation(helper.append_bias_op(out, start, start + 1))


def _convolve(op_type: str, rank: int, given: dict[str, Any]) -> Variable:
    channels, last = _channels(given, rank, op_type)
    attrs = _attributes(given, rank, last, op_type)
    filters, groups = given["num_filters"], attrs["groups"]
    if channels % groups or filters % groups:
        raise ValueError(
            f"{op_type}: groups={groups} must divide the {channels} channels of "
            f"{given['input'].name} and num_filters={filters}"
        )
    if groups == channels and not given["use_cudnn"] and rank == 4:
        op_type = f"depthwise_{op_type}"
    helper = _helper(op_type, given)
    window = per_dimension(given["filter_size"], rank - 2, "filter_size")
    deviation = math.sqrt(2.0 / (math.prod(window) * channels))
    weight = helper.create_parameter(
        helper.param_attr,
        [filters, channels // groups, *window],
        given["input"].dtype,
        default_initializer=Normal(0.0, deviation, 0),
    )
    out = op(op_type, {"Input": given["input"], "Filter": weight}, attrs, layer=helper)
    return _finish(helper, out, last)


def _window_for(
    output: list[int], given: dict[str, Any], attrs: dict[str, Any], last: bool
) -> list[int]:
    """The filter size with which the input becomes `output`."""
    shape = given["input"].shape
    sizes = shape[1:-1] if last else shape[2:]
    pads = attrs["paddings"]
    if len(pads) == len(output):
        pads = [pad for pad in pads for _ in range(2)]
    return [
        (output[i] - (sizes[i] - 1) * attrs["strides"][i] + pads[2 * i] + pads[2 * i + 1] - 1)
        // attrs["dilations"][i]
        + 1
        for i in range(len(output))
    ]


def _convolve_back(op_type: str, rank: int, given: dict[str, Any]) -> Variable:
    channels, last = _channels(given, rank, op_type)
    attrs = _attributes(given, rank, last, op_type)
    size = given["output_size"]
    output = [] if size is None else per_dimension(size, rank - 2, "output_size")
    if given["filter_size"] is not None:
        window = per_dimension(given["filter_size"], rank - 2, "filter_size")
    elif output:
        window = _window_for(output, given, attrs, last)
    else:
        raise ValueError(f"{op_type}: give filter_size, or output_size to compute it from")
    filters, groups = given["num_filters"], attrs["groups"]
    if groups == channels == filters and not given["use_cudnn"] and rank == 4:
        op_type = f"depthwise_{op_type}"
    helper = _helper(op_type, given)
    shape = [channels, filters // groups, *window]
    weight = helper.create_parameter(helper.param_attr, shape, given["input"].dtype)
    out = op(
        op_type,
        {"Input": [given["input"]], "Filter": [weight]},
        attrs | ({"output_size": output} if output else {}),
        layer=helper,
    )
    return _finish(helper, out, last)
