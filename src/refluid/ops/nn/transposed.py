"""Transposed convolutions: the gradient of a convolution as an operator of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.bounded import Images
from refluid.ops.extras import TRANSPOSED
from refluid.ops.nn import windows as padding
from refluid.ops.registry import gradient, operator

_ONES, _ZEROS = (1, 1), (0, 0)
aten = torch.ops.aten
_LAST = {"NHWC", "NDHWC"}


def _channels_first(value: Tensor, data_format: str) -> Tensor:
    return value.movedim(-1, 1) if data_format in _LAST else value


def _as_given(value: Tensor, data_format: str) -> Tensor:
    return value.movedim(1, -1) if data_format in _LAST else value


def _geometry(
    x: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    paddings: Sequence[int],
    algorithm: str,
    dilations: Sequence[int],
    output_size: Sequence[int],
) -> tuple[list[int], list[int], Sequence[int], padding.Pads]:
    """Padding, output padding and dilations as torch has them, and what is cut off the output.

    SAME goes without dilations.
    """
    sizes = x.shape[2:]
    dilations = [1] * len(sizes) if algorithm == "SAME" else dilations
    extent = [(k - 1) * d + 1 for k, d in zip(kernel.shape[2:], dilations, strict=True)]
    pads = padding.resolve(paddings, algorithm, sizes, extent, strides)
    common = [min(pair) for pair in pads]
    cut = [(low - same, high - same) for (low, high), same in zip(pads, common, strict=True)]
    made = [
        (size - 1) * stride + whole - sum(pad)
        for size, stride, whole, pad in zip(sizes, strides, extent, pads, strict=True)
    ]
    if min(output_size or made) < 1:
        raise EnforceNotMet(
            f"the output of a transposed convolution of {list(sizes)} by {list(kernel.shape[2:])} "
            f"would have the size {list(output_size or made)}: paddings {list(paddings)} leave none"
        )
    added = [wanted - one for wanted, one in zip(output_size or made, made, strict=True)]
    if not x.is_meta:  # where it is, sizes may be unknown
        _require_reached(output_size, sizes, kernel, strides, made)
    return common, added, dilations, cut


def _require_reached(
    wanted: Sequence[int],
    sizes: Sequence[int],
    kernel: Tensor,
    strides: Sequence[int],
    made: Sequence[int],
) -> None:
    """A given size is one of those that a convolution would bring back to `sizes`."""
    most = [one + stride - 1 for one, stride in zip(made, strides, strict=True)]
    if any(
        not low <= one <= high for low, one, high in zip(made, wanted or made, most, strict=True)
    ):
        raise EnforceNotMet(
            f"output_size is {list(wanted)}, but a transposed convolution of {list(sizes)} by "
            f"{list(kernel.shape[2:])} with strides {list(strides)} gives {list(made)} to {most}"
        )


def _whole_groups(x: Tensor, kernel: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The channels of x that make whole groups, and their filters."""
    used = x.shape[1] // groups * groups
    return (x, kernel) if used == x.shape[1] else (x[:, :used], kernel[:used])


def _with_zeros(value: Tensor | None, dim: int, count: int) -> Tensor | None:
    """`value` with so many zeros after it along `dim`."""
    if value is None:
        return None
    shape = list(value.shape)
    shape[dim] = count
    return torch.cat([value, value.new_zeros(shape)], dim)


def _cut(value: Tensor, cut: padding.Pads) -> Tensor:
    if not any(map(any, cut)):
        return value
    return torch.nn.functional.pad(value, [-size for size in padding.flat(cut)])


def conv_transpose(
    Input: Images,
    Filter: Images,
    Bias: Tensor | None = None,
    *,
    output_size: Sequence[int] = (),
    groups: int = 1,
    dilations: Sequence[int] = _ONES,
    strides: Sequence[int] = _ONES,
    paddings: Sequence[int] = _ZEROS,
    data_format: str = "NCHW",
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """Transposed convolution of Input (N, C, ...) with Filter (C, M / groups, ...).

    Output (N, M, ...) has (size - 1) * stride + dilation * (kernel - 1) + 1 elements less the
    paddings in each dimension, or `output_size` of them. Where groups doesn't divide C, the
    channels left over are left out, as in Fluid.
    """
    x, Filter = _whole_groups(_channels_first(Input, data_format), Filter, groups)
    pads, added, dilations, cut = _geometry(
        x, Filter, strides, paddings, padding_algorithm, dilations, output_size
    )
    out = aten.convolution(x, Filter, Bias, strides, pads, dilations, True, added, groups)
    return _as_given(_cut(out, cut), data_format)


def conv_transpose_grad(
    Input: Tensor,
    Filter: Tensor,
    Bias: Tensor | None,
    d_Output: Tensor,
    *,
    output_size: Sequence[int] = (),
    groups: int = 1,
    dilations: Sequence[int] = _ONES,
    strides: Sequence[int] = _ONES,
    paddings: Sequence[int] = _ZEROS,
    data_format: str = "NCHW",
    padding_algorithm: str = "EXPLICIT",
    need: Sequence[bool] = (True, True, False),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of input, filter and bias; channels that were left out have zeros."""
    x, used = _whole_groups(_channels_first(Input, data_format), Filter, groups)
    left_out = Filter.shape[0] - used.shape[0]
    pads, added, dilations, cut = _geometry(
        x, used, strides, paddings, padding_algorithm, dilations, output_size
    )
    grad = _cut(_channels_first(d_Output, data_format), [(-low, -high) for low, high in cut])
    bias = None if Bias is None else Bias.shape
    d_x, d_filter, d_bias = aten.convolution_backward(
        grad, x, used, bias, strides, pads, dilations, True, added, groups, need
    )
    if left_out:
        d_x, d_filter = _with_zeros(d_x, 1, left_out), _with_zeros(d_filter, 0, left_out)
    return None if d_x is None else _as_given(d_x, data_format), d_filter, d_bias


def _define(name: str, forward: Callable[..., Tensor]) -> None:
    operator(
        name,
        outputs="Output",
        uses="Input Filter Bias",
        amp="fast",
        extra=TRANSPOSED,
        lod="",
        gradient_lod="none",
    )(forward)
    gradient(name)(conv_transpose_grad)


_define("conv2d_transpose", conv_transpose)
_define("depthwise_conv2d_transpose", conv_transpose)
