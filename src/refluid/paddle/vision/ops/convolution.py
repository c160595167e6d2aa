"""Convolutions whose taps are moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.nn.windows import per_dimension
from refluid.ir.variable import Variable
from refluid.paddle.nn.initializer import Normal
from refluid.paddle.nn.layer.layers import Layer

Sizes = int | Sequence[int]


def deform_conv2d(
    x: Variable,
    offset: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The convolution of (N, C, H, W) whose taps are moved by `offset`, and weighted by `mask`.

    offset (N, 2 * deformable_groups * taps, Ho, Wo): y and x of each tap, in pixels; mask
    (N, deformable_groups * taps, Ho, Wo). weight: (C_out, C / groups, height, width).
    """
    attrs = {
        "strides": per_dimension(stride, 2, "stride"),
        "paddings": per_dimension(padding, 2, "padding"),
        "dilations": per_dimension(dilation, 2, "dilation"),
        "groups": groups,
        "deformable_groups": deformable_groups,
        "im2col_step": 1,
    }
    inputs = {"Input": x, "Offset": offset, "Filter": weight}
    if mask is None:
        out = op("deformable_conv_v1", inputs, attrs, name=name)
    else:
        out = op("deformable_conv", inputs | {"Mask": mask}, attrs, name=name)
    return out if bias is None else op("elementwise_add", {"X": out, "Y": bias}, {"axis": 1})


class DeformConv2D(Layer):
    """`deform_conv2d` with a filter and a bias of its own."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        assert weight_attr is not False, "weight_attr should not be False in Conv."
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        self._settings = (stride, padding, dilation, deformable_groups, groups)
        window = per_dimension(kernel_size, 2, "kernel_size")
        spread = Normal(0.0, math.sqrt(2.0 / (math.prod(window) * in_channels)))
        shape = [out_channels, in_channels // groups, *window]
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=spread)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Variable, offset: Variable, mask: Variable | None = None) -> Variable:
        """The convolution of x."""
        return deform_conv2d(x, offset, self.weight, self.bias, *self._settings, mask=mask)
