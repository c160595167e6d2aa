"""Updates of parameters in one pass over memory, where torch has no fused kernel for them.

Torch computes them term by term, with a pass over memory for each. The parts of a parameter are
updated one after the other while they are in the cache, shared among torch's threads. Parameters,
gradients and states are float32 on the CPU, alike in shape and memory order, and without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.holders import laid_out_alike
from refluid.kernels.lists import ENOUGH
from refluid.kernels.teams import team_size

# So many numbers are a part that a thread takes.
_PART = 2**13

Tensors = Sequence[Tensor]


def suited(params: Tensors, *others: Tensors) -> list[int]:
    """The places of parameters that are updated so: by each one's own size and order alone."""
    return [
        place
        for place, every in enumerate(zip(params, *others, strict=True))
        if _is_suited(every[0]) and all(_goes_with(every[0], one) for one in every[1:])
    ]


def _is_suited(param: Tensor) -> bool:
    if param.numel() < ENOUGH or param.dtype is not torch.float32 or not param.is_cpu:
        return False
    return param.is_contiguous() or param.is_contiguous(memory_format=_channels_last(param))


def _channels_last(param: Tensor) -> torch.memory_format:
    known = {4: torch.channels_last, 5: torch.channels_last_3d}
    return known.get(param.dim(), torch.contiguous_format)


def _goes_with(param: Tensor, other: Tensor) -> bool:
    return (
        other.dtype is param.dtype
        and other.is_cpu
        and other.shape == param.shape
        and laid_out_alike(param, other)
    )


class Parts:
    """The parts of some parameters and of what belongs to them."""

    def __init__(self, *kinds: Tensors) -> None:
        self._held = kinds
        self._places = np.array([[one.data_ptr() for one in kind] for kind in kinds], np.int64)
        self._sizes = np.array([one.numel() for one in kinds[0]], np.int64)
        counts = -(-self._sizes // _PART)
        self._firsts = np.concatenate((np.zeros(1, np.int64), counts.cumsum()))

    def run(
        self, loop: Callable[..., Any], rates: Sequence[float], numbers: tuple[float, ...]
    ) -> Any:
        """Runs a loop of `update_loops.py`; gives its sums, float64 [2, parameters]."""
        sums = np.zeros((2, int(self._firsts[-1])))
        room = torch.empty(team_size(), 2 * _PART)
        counters = np.zeros(1, np.int64), np.zeros(1, np.int64)
        given = self._places, self._sizes, self._firsts, np.array(rates, np.float64)
        loop(*counters, *given, sums, room, numbers)
        return np.add.reduceat(sums, self._firsts[:-1], axis=1)
