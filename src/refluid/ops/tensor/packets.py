"""How Fluid's CPU kernels take the padding off a tensor: packet by packet, some of them wrong.

Fluid 1.8 computes the gradient of `pad` on a CPU as a padding by negative sizes. The library that
does it copies packets of neighbouring numbers wherever a packet doesn't reach into padding, and
with negative sizes it doesn't see that a packet goes on in the next row: there it copies what
follows the row in the padded tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from refluid.core import flags

_PACKET_BYTES = 32


def without_padding(padded: Tensor, before: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The part of `padded` that begins at `before` and has `shape`, contiguous.

    With FLAGS_refluid_fluid_cpu_faults as Fluid's CPU takes it.
    """
    packed = padded.device.type == "cpu" and padded.is_floating_point()
    if packed and flags.value("refluid_fluid_cpu_faults"):
        size = _PACKET_BYTES // padded.element_size()
        source = _sources(tuple(padded.shape), tuple(before), tuple(shape), size)
        if source is not None:
            return padded.reshape(-1).index_select(0, source).view(*shape)
    cut = tuple(slice(start, start + size) for start, size in zip(before, shape, strict=True))
    return padded[cut].contiguous()


@lru_cache(maxsize=256)
def _sources(
    padded: tuple[int, ...], before: tuple[int, ...], shape: tuple[int, ...], packet: int
) -> Tensor | None:
    """For each number of the result its place in the padded tensor; None where all are right."""
    count = prod(shape)
    if count < packet or padded == shape:
        return None
    strides = [prod(padded[dim + 1 :]) for dim in range(len(padded))]
    steps = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    place = torch.arange(count)
    source = torch.zeros(count, dtype=torch.int64)
    for start, size, stride, step in zip(before, shape, strides, steps, strict=True):
        source += (place // step % size + start) * stride
    right = source.clone()
    first = torch.arange(0, count - packet + 1, packet)
    whole, index = torch.ones_like(first, dtype=torch.bool), first.clone()
    for dim, step in enumerate(steps):
        end = (padded[dim] - before[dim]) * step
        whole &= index + packet - 1 < end
        index = index % step
    copied = first[whole][:, None] + torch.arange(packet)
    source[copied] = source[copied[:, :1]] + torch.arange(packet)
    return None if torch.equal(source, right) else source.clamp_(max=prod(padded) - 1)
