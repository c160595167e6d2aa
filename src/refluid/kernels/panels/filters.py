"""Gradients of convolutions' filters as products by panels, where those are faster than oneDNN's.

The gradient is the product of the results' gradients, one line for each channel, and of what the
filter's places saw of the images. oneDNN computes most of them at two thirds of its other
convolutions' speed, some at a third, others as fast as any. Which is which follows from a
convolution's sizes and the processor: it is found out where it is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.faster import FasterWay
from refluid.kernels.panels import windows
from refluid.kernels.panels.product import Working, multiply_in_parts, shape_of
from refluid.kernels.panels.tiles import tile_sizes
from refluid.kernels.processor import vector_bits
from refluid.kernels.teams import team_size
from refluid.kernels.vectors import LANES

# Numbers of a gradient that caches hold whole, and how many groups its windows make then; windows
# that are laid at a time, and numbers of their left panels.
_HELD, _GROUPS = 2**17, 8
_AT_ONCE, _LEAST, _LEFT = 512, 64, 2**16
# What a convolution is called with: strides, paddings and dilations, downwards and to the right.
ConvolutionSteps = tuple[Sequence[int], Sequence[int], Sequence[int]]


def may_be_by_panels(grad: Tensor, x: Tensor, filters: Tensor) -> bool:
    """Whether the filters' gradient, of float32 on the CPU and not in groups, can be by panels.

    grad (N, M, H', W'), x (N, C, H, W), filters (M, C, kh, kw).
    """
    if not (x.is_cpu and x.dtype is grad.dtype is filters.dtype is torch.float32):
        return False
    if x.dim() != 4 or x.shape[1] != filters.shape[1] or x.shape[1] % LANES:
        return False
    is_watched = torch.is_grad_enabled() and any(one.requires_grad for one in (grad, x, filters))
    if is_watched or not vector_bits():
        return False
    last = torch.channels_last
    return grad.is_contiguous(memory_format=last) and x.is_contiguous(memory_format=last)


def filter_gradient(grad: Tensor, x: Tensor, filters: Tensor, steps: ConvolutionSteps) -> Tensor:
    """The gradient of a convolution's filters, of which `may_be_by_panels` holds."""
    found: Tensor = torch.ops.refluid.filter_gradient(grad, x, filters, *steps)
    return found


def by_torch(grad: Tensor, x: Tensor, filters: Tensor, *steps: Sequence[int]) -> Tensor:
    """It by oneDNN."""
    mask = (False, True, False)
    given = None, *steps, False, (0, 0), 1, mask
    found: Tensor = torch.ops.aten.convolution_backward(grad, x, filters, *given)[1]
    return found


def by_panels(grad: Tensor, x: Tensor, filters: Tensor, *steps: Sequence[int]) -> Tensor:
    """It by loops of refluid's own; its channels lie side by side, as those of the images."""
    made, (channels, high, wide), (rows, columns) = len(filters), filters.shape[1:], grad.shape[2:]
    out = x.new_empty(made, high, wide, channels)
    (down, right), (above, before), (below, beside) = steps
    window = *x.shape[2:], channels, rows, columns, wide, down, right, above, before, below, beside

    lines = grad.permute(0, 2, 3, 1).reshape(-1, made).t()
    if out.numel() <= _HELD and lines.shape[1] > _GROUPS * _AT_ONCE:
        _in_groups(lines, x, window, out)
    else:

        def multiply(counters: int, left: int, *given: Any) -> None:
            windows.multiply_windows(counters, left, x.data_ptr(), window, *given)

        multiply_in_parts(lines, out.view(made, -1), multiply)
    return out.permute(0, 3, 1, 2)


def _in_groups(lines: Tensor, x: Tensor, window: tuple[int, ...], out: Tensor) -> None:
    """The products of groups of windows, added up in order: as many, whatever threads there are."""
    (made, count), sizes = lines.shape, tile_sizes()
    height, width = sizes.height, sizes.width
    group = -(-count // _GROUPS)
    results = out.new_empty(-(-count // group), *out.shape)
    depth = max(_LEAST, min(_AT_ONCE, _LEFT // made))
    left = -(-made // height) * height * depth
    working = Working.of(2, 0, team_size() * (left + width * depth))
    windows.multiply_groups(
        working.counters.data_ptr(),
        lines.data_ptr(),
        shape_of(lines),
        x.data_ptr(),
        window,
        (height, width, depth, group, count, made, out[0].numel()),
        working.scratch,
        results.data_ptr(),
    )
    torch.sum(results, 0, out=out)


faster_way = FasterWay(by_panels, by_torch)

if not hasattr(torch.ops.refluid, "filter_gradient"):  # it is there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define(
        "filter_gradient(Tensor grad, Tensor x, Tensor filters, int[] strides, int[] paddings, "
        "int[] dilations) -> Tensor"
    )
    _library.impl("filter_gradient", faster_way, "CPU")
