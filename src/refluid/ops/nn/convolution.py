"""Convolutions, in NCHW and NHWC."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from refluid.kernels.epilogues import deactivate_
from refluid.ops.bounded import Images
from refluid.ops.extras import CONVOLUTION
from refluid.ops.nn import windows as padding
from refluid.ops.registry import gradient, operator

aten = torch.ops.aten
_ONES = (1, 1)
_TWOS = (2, 2)
_ZEROS = (0, 0)


def _channels_first(value: Tensor, data_format: str) -> Tensor:
    return value.permute(0, 3, 1, 2) if data_format == "NHWC" else value


def _as_given(value: Tensor, data_format: str) -> Tensor:
    return value.permute(0, 2, 3, 1) if data_format == "NHWC" else value


def _padded(
    x: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    paddings: Sequence[int],
    algorithm: str,
    dilations: Sequence[int],
) -> tuple[Tensor, list[int], padding.Pads | None, Sequence[int]]:
    """The input, padded where paddings differ on both sides; symmetric paddings left over; what was
    padded; dilations."""
    if algorithm == "SAME":
        dilations = _ONES
    extent = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilations, strict=True)]
    sizes = x.shape[2:]
    if algorithm == "EXPLICIT" and len(paddings) == 2:
        high, wide = paddings
        if sizes[0] + 2 * high >= extent[0] and sizes[1] + 2 * wide >= extent[1]:
            return x, list(paddings), None, dilations
    pads = padding.resolve(paddings, algorithm, sizes, extent, strides)
    pads = padding.stretch(pads, sizes, extent, strides)
    same = padding.symmetric(pads)
    if same is not None:
        return x, same, None, dilations
    return torch.nn.functional.pad(x, padding.flat(pads)), [0, 0], pads, dilations


def _dilations(filters: Tensor, given: Sequence[int]) -> Sequence[int]:
    """The dilations to call torch with.

    Those of filters of one pixel change nothing but torch's choice of kernel: without dilation one
    thread gets matrix products, which take twice as long as oneDNN's convolutions.
    """
    single = filters.shape[2:] == _ONES and filters.device.type == "cpu"
    return _TWOS if single and torch.backends.mkldnn.enabled else tuple(given)


def conv2d(
    Input: Images,
    Filter: Images,
    Bias: Tensor | None = None,
    ResidualData: Tensor | None = None,
    *,
    strides: Sequence[int] = _ONES,
    paddings: Sequence[int] = _ZEROS,
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Sequence[int] = _ONES,
    data_format: str = "NCHW",
    fuse_relu_before_depthwise_conv: bool = False,
) -> Tensor:
    """Two-dimensional convolution (no flip of the filter).

    Input (N, C, H, W), Filter (M, C / groups, kh, kw), Output (N, M, H', W'); with data_format
    NHWC input and output have the channels last. padding_algorithm: EXPLICIT, SAME or VALID.
    Bias is one number for each of the M. fuse_relu_before_depthwise_conv: of relu(Input).
    """
    Input = torch.relu(Input) if fuse_relu_before_depthwise_conv else Input
    x = _channels_first(Input, data_format)
    x, pads, _, dilations = _padded(x, Filter, strides, paddings, padding_algorithm, dilations)
    dilations = _dilations(Filter, dilations)
    out = torch.conv2d(x, Filter, Bias, tuple(strides), pads, dilations, groups)
    return _as_given(out, data_format)


def conv2d_grad(
    Input: Tensor,
    Filter: Tensor,
    Bias: Tensor | None,
    d_Output: Tensor,
    *,
    strides: Sequence[int] = _ONES,
    paddings: Sequence[int] = _ZEROS,
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Sequence[int] = _ONES,
    data_format: str = "NCHW",
    fuse_relu_before_depthwise_conv: bool = False,
    need: Sequence[bool] = (False, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of bias, filter and input."""
    Input = torch.relu(Input) if fuse_relu_before_depthwise_conv else Input
    x = _channels_first(Input, data_format)
    x, pads, extra, dilations = _padded(x, Filter, strides, paddings, padding_algorithm, dilations)
    wide = _multiplied_as_float(x, Filter, strides, groups)
    given = (_channels_first(d_Output, data_format), x, Filter)
    found = aten.convolution_backward(
        *(one.float() if wide else one for one in given),
        None if Bias is None else Bias.shape,
        strides,
        pads,
        _dilations(Filter, dilations),
        False,
        (0, 0),
        groups,
        (need[2], need[1], need[0]),
    )
    d_x, d_filter, d_bias = (one.to(x.dtype) if wide and one is not None else one for one in found)
    if d_x is not None and extra is not None:
        (top, bottom), (left, right) = extra
        height, width = d_x.shape[2:]
        d_x = d_x[:, :, top : height - bottom, left : width - right].contiguous()
    d_input = None if d_x is None else _as_given(d_x, data_format)
    if d_input is not None and fuse_relu_before_depthwise_conv:
        d_input = deactivate_(Input, d_input, "relu")
    return d_bias, d_filter, d_input


def _multiplied_as_float(x: Tensor, filters: Tensor, strides: Sequence[int], groups: int) -> bool:
    """Whether the gradient is computed in float32 instead of bfloat16.

    For these depthwise convolutions oneDNN has none but its reference kernel for bfloat16, which
    takes ten times as long.
    """
    if x.dtype is not torch.bfloat16 or x.device.type != "cpu":
        return False
    return 1 < groups == x.shape[1] and (max(strides) > 1 or max(filters.shape[2:]) > 3)


def _define(name: str, forward: Callable[..., Tensor], extra: dict[str, object]) -> None:
    operator(
        name,
        outputs="Output",
        uses="Input Filter Bias",
        differentiable="Bias Filter Input",
        amp="fast",
        filter="Filter",
        by_autograd="always",
        extra=extra,
        gradient_lod="none",
        infer=padding.infer_convolved,
    )(forward)
    gradient(name)(conv2d_grad)


_define("conv2d", conv2d, CONVOLUTION)
_define("depthwise_conv2d", conv2d, CONVOLUTION)
