"""Convolutions, in NCHW and NHWC."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from refluid.kernels.epilogues import deactivate_
from refluid.kernels.processor import LARGE_FILTERS
from refluid.kernels.products import limits
from refluid.ops.bounded import Images
from refluid.ops.extras import CONVOLUTION
from refluid.ops.nn import windows as padding
from refluid.ops.registry import gradient, operator

aten = torch.ops.aten
_Gradients = tuple[Tensor | None, ...]
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
    given = (_channels_first(d_Output, data_format), x, Filter)
    steps = strides, pads, _dilations(Filter, dilations)
    wanted = need[2], need[1], need[0]
    d_x, d_filter, d_bias = _gradients(given, Bias, steps, groups, wanted)
    if d_x is not None and extra is not None:
        (top, bottom), (left, right) = extra
        height, width = d_x.shape[2:]
        d_x = d_x[:, :, top : height - bottom, left : width - right].contiguous()
    d_input = None if d_x is None else _as_given(d_x, data_format)
    if d_input is not None and fuse_relu_before_depthwise_conv:
        d_input = deactivate_(Input, d_input, "relu")
    return d_bias, d_filter, d_input


def _gradients(
    given: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    steps: tuple[Sequence[int], Sequence[int], Sequence[int]],
    groups: int,
    wanted: tuple[bool, bool, bool],
) -> _Gradients:
    """Those of the input, the filters and the bias that are wanted.

    given: the output's gradient, the input and the filters, channels first. steps: strides,
    paddings and dilations.
    """
    grad, x, filters = given
    if wanted[1] and groups == 1 and _may_be_by_panels(grad, x, filters):
        from refluid.kernels.panels.filters import filter_gradient

        d_x, _, _ = _gradients(given, None, steps, groups, (wanted[0], False, False))
        d_bias = grad.sum((0, 2, 3)) if wanted[2] else None
        return d_x, filter_gradient(grad, x, filters, steps), d_bias
    if not any(wanted):
        return None, None, None
    if 1 < groups == x.shape[1] and x.dtype is torch.bfloat16 and x.is_cpu:
        from refluid.kernels.depthwise import DepthwiseGradients, lacks_kernels  # few are so

        if lacks_kernels(filters, steps[0]):
            return DepthwiseGradients(grad, x, filters, steps).of(*wanted)
    sizes = None if bias is None else bias.shape
    found: _Gradients = aten.convolution_backward(
        *given, sizes, *steps, False, (0, 0), groups, wanted
    )
    return found


def _may_be_by_panels(grad: Tensor, x: Tensor, filters: Tensor) -> bool:
    if not limits.panels or grad.numel() * filters[0].numel() < LARGE_FILTERS:
        return False
    if limits.repeatable or torch.are_deterministic_algorithms_enabled():
        return False
    from refluid.kernels.panels.filters import may_be_by_panels  # few programs have such filters

    return may_be_by_panels(grad, x, filters)


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
