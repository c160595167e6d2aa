"""Gradients of depthwise convolutions in bfloat16, where oneDNN has no kernel but its reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.kernels.processor import vector_bits

aten = torch.ops.aten
Mask = tuple[bool, bool, bool]
# The largest window for which oneDNN has a gradient of filters.
_SIDE = 3


def lacks_kernels(filters: Tensor, strides: Sequence[int]) -> bool:
    """Whether oneDNN computes a gradient by its reference kernel, in ten times as long and more."""
    return max(strides) > 1 or max(filters.shape[2:]) > _SIDE


class DepthwiseGradients:
    """Those of one convolution, whose kernel is lacking: each by what is faster.

    grad (N, M, H', W'), x (N, C, H, W), filters (M, 1, kh, kw), M a multiple of C; strides,
    paddings and dilations downwards and to the right.
    """

    def __init__(
        self, grad: Tensor, x: Tensor, filters: Tensor, steps: tuple[Sequence[int], ...]
    ) -> None:
        self._given, self._steps = (grad, x, filters), steps
        # With narrower registers oneDNN has no convolutions of bfloat16 at all.
        self._is_fast = vector_bits() == 512

    def of(self, images: bool, filters: bool, bias: bool) -> tuple[Tensor | None, ...]:
        """The gradients of x, the filters and a bias: those that are wanted."""
        return (
            self._images() if images else None,
            self._filters() if filters else None,
            self._given[0].sum((0, 2, 3)) if bias else None,
        )

    def _images(self) -> Tensor:
        """A convolution of its own: of the gradients, as far apart as windows are, with zeros
        between and around them, by the filters turned round."""
        grad, x, filters = self._given
        strides, paddings, dilations = self._steps
        reach = [(n - 1) * by for n, by in zip(filters.shape[2:], dilations, strict=True)]
        before = [far - pad for far, pad in zip(reach, paddings, strict=True)]
        if not self._is_fast or min(before) < 0 or len(filters) != x.shape[1]:
            return self._as_float((True, False, False))[0]
        turned, groups = filters.flip(2, 3), x.shape[1]
        if max(strides) == 1:
            return torch.conv2d(grad, turned, None, 1, before, tuple(dilations), groups)
        sizes = [size + far for size, far in zip(x.shape[2:], reach, strict=True)]
        shape, last = (len(x), groups, *sizes), torch.channels_last
        apart = torch.empty(shape, dtype=x.dtype, memory_format=last).zero_()
        rows, columns = (
            slice(first, first + (count - 1) * by + 1, by)
            for first, count, by in zip(before, grad.shape[2:], strides, strict=True)
        )
        apart[:, :, rows, columns] = grad
        return torch.conv2d(apart, turned, None, 1, 0, tuple(dilations), groups)

    def _filters(self) -> Tensor:
        mask = (False, True, False)
        if not self._is_fast or max(self._given[2].shape[2:]) > _SIDE:
            return self._as_float(mask)[1]
        return self._by_torch(self._given, mask)[1]

    def _as_float(self, mask: Mask) -> tuple[Tensor, ...]:
        """By torch in float32, rounded at the end."""
        found = self._by_torch([one.float() for one in self._given], mask)
        return tuple(one if one is None else one.to(torch.bfloat16) for one in found)

    def _by_torch(self, given: Sequence[Tensor], mask: Mask) -> tuple[Tensor, ...]:
        """What the mask leaves out is None."""
        groups = self._given[1].shape[1]
        steps = None, *self._steps, False, (0, 0), groups, mask
        found: tuple[Tensor, ...] = aten.convolution_backward(*given, *steps)
        return found
