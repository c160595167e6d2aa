"""deformable_conv: a convolution that learns where its taps are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import check_variables, op
from refluid.fluid.functions.nn.windows import per_dimension
from refluid.fluid.initializer import Normal
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_IM2COL_STEP = 64


def deformable_conv(
    input: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    modulated: bool = True,
    name: str | None = None,
) -> Variable:
    """2-D convolution of (N, C, H, W) whose taps are moved by `offset` and weighted by `mask`.

    offset (N, 2 * deformable_groups * taps, Ho, Wo): y and x of each tap, in pixels; mask
    (N, deformable_groups * taps, Ho, Wo), None without `modulated`. ValueError where `groups`
    doesn't divide the channels.
    """
    helper = LayerHelper("deformable_conv", param_attr=param_attr, bias_attr=bias_attr, name=name)
    inputs = {"Input": input, "Offset": offset} | ({"Mask": mask} if modulated else {})
    check_variables("deformable_conv", inputs)
    weight = _filter(helper, input, num_filters, filter_size, groups or 1)
    attrs = {
        "strides": per_dimension(stride, 2, "stride"),
        "paddings": per_dimension(padding, 2, "padding"),
        "dilations": per_dimension(dilation, 2, "dilation"),
        "groups": groups or 1,
        "deformable_groups": deformable_groups or 1,
        "im2col_step": im2col_step or _IM2COL_STEP,
    }
    op_type = "deformable_conv" if modulated else "deformable_conv_v1"
    out = op(op_type, inputs | {"Filter": weight}, attrs, layer=helper)
    return helper.append_bias_op(out, 1, 2)


def _filter(
    helper: LayerHelper,
    input: Variable,
    filters: int,
    filter_size: int | Sequence[int],
    groups: int,
) -> Variable:
    channels = input.shape[1]
    if channels % groups:
        raise ValueError(
            f"deformable_conv: groups={groups} must divide the {channels} channels of {input.name}"
        )
    window = per_dimension(filter_size, 2, "filter_size")
    deviation = math.sqrt(2.0 / (math.prod(window) * channels))
    weight: Variable = helper.create_parameter(
        helper.param_attr,
        [filters, channels // groups, *window],
        input.dtype,
        default_initializer=Normal(0.0, deviation, 0),
    )
    return weight
