"""Layers of `paddle.static.nn` that take other arguments than Fluid's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.fluid import layers
from refluid.fluid.functions.control import branching
from refluid.fluid.functions.detection.deformable_conv import deformable_conv
from refluid.ir.variable import Variable


def fc(
    x: Variable | Sequence[Variable],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Variable:
    """x W + b, and an activation; as `fluid.layers.fc`."""
    return layers.fc(x, size, num_flatten_dims, weight_attr, bias_attr, activation, name)


def cond(
    pred: Variable,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    return_names: Any = None,
) -> Any:
    """What `true_fn()` gives where `pred` holds, else what `false_fn()` does.

    return_names: names in messages, which refluid gives by the user's line.
    """
    return branching.cond(pred, true_fn, false_fn, name)


def prelu(
    x: Variable,
    mode: str,
    param_attr: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """max(0, x) + a min(0, x); as `fluid.layers.prelu`. NotImplementedError for NHWC."""
    if data_format not in ("NC", "NCL", "NCHW", "NCDHW"):
        raise NotImplementedError(f"refluid's prelu takes channels first, not {data_format!r}")
    return layers.prelu(x, mode, param_attr, name)


def deform_conv2d(
    x: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Deformable convolution, of version 1 where `mask` is None; as `fluid.layers`' of the name."""
    return deformable_conv(
        x,
        offset,
        mask,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        deformable_groups,
        im2col_step,
        weight_attr,
        bias_attr,
        mask is not None,
        name,
    )
