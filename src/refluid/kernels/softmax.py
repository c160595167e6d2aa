"""Softmax, with what the cross entropy of it needs, in one pass over memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Of fewer elements torch's kernels find all in the cache; of narrower rows a call takes too long.
_ENOUGH, _WIDE = 2**18, 64
# So many elements are a part of the work that a thread takes.
_PART = 2**15

_wanted: list[Callable[[], bool]] = [lambda: True]


def loop_if(wanted: Callable[[], bool]) -> None:
    """Large ones are computed by the compiled loop while this holds."""
    _wanted[:] = [wanted]


def softmax_with_top(x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax along `axis`, the largest x there, and the log of that one's softmax.

    The latter two have size 1 at `axis`. Less its log(softmax), a number close to 0, the largest x
    is the log of the sum of all exponentials.
    """
    if not _is_ours(x, axis):
        softmax = torch.softmax(x, axis)
        return softmax, x.amax(axis, True), softmax.amax(axis, True).log_()
    from refluid.kernels.softmax_loops import softmax_rows  # few programs have losses so large

    width = x.shape[-1]
    softmax, counter = torch.empty_like(x), torch.zeros(1, dtype=torch.int64)
    top, rest = x.new_empty(2, *x.shape[:-1], 1)
    rows, flat = x.view(-1, width), softmax.view(-1, width)
    softmax_rows(counter, rows, flat, top.view(-1), rest.view(-1), max(1, _PART // width))
    return softmax, top, rest


def _is_ours(x: Tensor, axis: int) -> bool:
    if x.numel() < _ENOUGH or axis not in (-1, x.dim() - 1) or x.shape[-1] < _WIDE:
        return False
    if x.dtype is not torch.float32 or x.device.type != "cpu" or not x.is_contiguous():
        return False
    return _wanted[0]() and not (torch.is_grad_enabled() and x.requires_grad)
