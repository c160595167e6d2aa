"""Gradients of convolutions' filters as products by panels, where those are faster than oneDNN's.

The gradient is the product of the results' gradients, one line for each channel, and of what the
filter's places saw of the images. oneDNN computes most of them at two thirds of its other
convolutions' speed, some at a third, others as fast as any. Which is which follows from a
convolution's sizes and the processor: it is found out where it is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.panels import windows
from refluid.kernels.panels.choice import GAIN
from refluid.kernels.panels.product import multiply_in_parts
from refluid.kernels.processor import vector_bits
from refluid.kernels.vectors import LANES

# How many convolutions are tried.
_MOST = 4096
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

    def multiply(counters: int, left: int, *given: Any) -> None:
        windows.multiply_windows(counters, left, x.data_ptr(), window, *given)

    lines = grad.permute(0, 2, 3, 1).reshape(-1, made).t()
    multiply_in_parts(lines, out.view(made, -1), multiply)
    return out.permute(0, 3, 1, 2)


class _FasterWay:
    """Which of both ways is faster, for each convolution by itself.

    The first calls are torch's, and timed. In the last one of them the other way is timed, too, and
    then it is decided for good: nothing is computed for the sake of the trial alone but that.
    told: for all, instead of what would be measured.
    """

    calls = 3

    def __init__(self) -> None:
        self.told: bool | None = None
        self._chosen: dict[Any, bool] = {}
        self._took: dict[Any, list[float]] = {}

    def __call__(self, *given: Any) -> Tensor:
        key = torch.get_num_threads(), *(tuple(getattr(one, "shape", one)) for one in given)
        chosen = self._chosen.get(key) if self.told is None else self.told
        if chosen is None:
            return self._try(key, given)
        return by_panels(*given) if chosen else by_torch(*given)

    def _try(self, key: Any, given: tuple[Any, ...]) -> Tensor:
        if key not in self._took and len(self._took) >= _MOST:
            return by_torch(*given)
        took = self._took.setdefault(key, [])
        found, seconds = _timed(by_torch, given)
        took.append(seconds)
        if len(took) >= self.calls:
            ours = min(_timed(by_panels, given)[1] for _ in range(2))
            self._chosen[key] = min(took) >= GAIN * ours
        return found


def _timed(way: Callable[..., Tensor], given: tuple[Any, ...]) -> tuple[Tensor, float]:
    # What one thread computes by itself is the same whatever others do to the clock.
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.thread_time
    start = clock()
    found = way(*given)
    return found, clock() - start


faster_way = _FasterWay()

if not hasattr(torch.ops.refluid, "filter_gradient"):  # it is there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define(
        "filter_gradient(Tensor grad, Tensor x, Tensor filters, int[] strides, int[] paddings, "
        "int[] dilations) -> Tensor"
    )
    _library.impl("filter_gradient", lambda *given: faster_way(*given), "CPU")
