"""The maximum or mean of each window of images and volumes, with the windows that Fluid has.

Fluid pads with the lowest float32 and keeps a window that lies in the padding alone: its maximum is
that number, and its mean 0 / 0 where only what lies inside counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.nn import windows as padding

_LOWEST = torch.finfo(torch.float32).min
_MAX = {2: F.max_pool2d, 3: F.max_pool3d}
_MEAN = {2: F.avg_pool2d, 3: F.avg_pool3d}
_WHOLE_MAX = {2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def whole_max(x: Tensor) -> Tensor:
    """The maximum of each channel; its gradient goes to the first of equal ones."""
    return _WHOLE_MAX[x.dim() - 2](x, 1)


def max_windows(
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    ceil_mode: bool,
) -> Tensor:
    """The maximum of each window; ceil_mode: the last one may stick out."""
    pads, counts = _windows(x.shape[2:], ksize, strides, pads, ceil_mode)
    size, steps = tuple(ksize), tuple(strides)
    same = _fits_torch(x.shape[2:], ksize, strides, pads, counts)
    if same is not None:
        return _MAX[len(size)](x, size, steps, same, ceil_mode=ceil_mode)
    lowest = max(_LOWEST, torch.finfo(x.dtype).min)
    x = F.pad(x, padding.flat(_complete(x.shape[2:], ksize, strides, pads, counts)), value=lowest)
    return _MAX[len(size)](x, size, steps)


def mean_windows(
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    ceil_mode: bool,
    exclusive: bool,
) -> Tensor:
    """The mean of each window, over what lies inside where exclusive, else over all of `ksize`."""
    pads, counts = _windows(x.shape[2:], ksize, strides, pads, ceil_mode)
    size, steps = tuple(ksize), tuple(strides)
    same = _fits_torch(x.shape[2:], ksize, strides, pads, counts)
    complete = _complete(x.shape[2:], ksize, strides, pads, counts)
    pool = _MEAN[len(size)]
    if same is not None and (exclusive or complete == pads):
        return pool(x, size, steps, same, ceil_mode, not exclusive)
    total = pool(F.pad(x, padding.flat(complete)), size, steps, 0, False, True, 1)
    if not exclusive:
        return total / math.prod(size)
    inside = torch.ones((), dtype=x.dtype, device=x.device)
    for length, window, step, (before, _), count in zip(
        x.shape[2:], ksize, strides, pads, counts, strict=True
    ):
        starts = torch.arange(count, device=x.device) * step - before
        held = (starts + window).clamp(max=length) - starts.clamp(min=0)
        inside = inside.unsqueeze(-1) * held.to(x.dtype)
    return total / inside


def _windows(
    sizes: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    ceil_mode: bool,
) -> tuple[padding.Pads, list[int]]:
    """The paddings, with more where even one window would not fit, and how many windows fit.

    Fluid counts by a division that cuts towards zero: a window that lacks less than a stride is
    one that sticks out, and others are refused, as by paddle 2.6.2.
    """
    every = list(zip(sizes, ksize, strides, pads, strict=True))
    rooms = [size + sum(pair) - window for size, window, _, pair in every]
    if ceil_mode:
        rooms = [room + step - 1 for room, step in zip(rooms, strides, strict=True)]
    if any(room <= -step for room, step in zip(rooms, strides, strict=True)):
        raise EnforceNotMet(
            f"windows {list(ksize)} are larger than images of {list(sizes)} with paddings "
            f"{[list(pair) for pair in pads]} and strides {list(strides)}: not one fits; use "
            "larger images or a smaller pool_size"
        )
    counts = [max(room, 0) // step + 1 for room, step in zip(rooms, strides, strict=True)]
    return padding.reach(pads, sizes, ksize), counts


def _complete(
    sizes: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    counts: Sequence[int],
) -> padding.Pads:
    """Paddings with which no window sticks out."""
    every = zip(sizes, ksize, strides, pads, counts, strict=True)
    return [
        (before, max(after, (count - 1) * step + window - size - before))
        for size, window, step, (before, after), count in every
    ]


def _fits_torch(
    sizes: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: padding.Pads,
    counts: Sequence[int],
) -> list[int] | None:
    """Paddings that torch's own pools take, None where they lack some of the windows.

    They are symmetric, at most half a window, and no window lies in the padding at the end.
    """
    same = padding.symmetric(pads)
    every = zip(sizes, ksize, strides, pads, counts, strict=True)
    for size, window, step, (before, _), count in every:
        if before > window // 2 or (count - 1) * step >= size + before:
            return None
    return same
