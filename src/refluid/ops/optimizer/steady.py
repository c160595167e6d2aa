"""Updates prepared for parameters and states that stay where they are, on the CPU.

A batch of updates looks at shape and layout of every tensor, and makes tensors of a few numbers to
read them. Where only gradients are others from step to step, all but theirs is looked at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.holders import laid_out_alike
from refluid.ops.optimizer.fused import as_laid_out
from refluid.ops.required import require_equal

Tensors = list[Tensor]
Kept = Mapping[str, Tensors]
_TAKEN = (torch.float32, torch.float64)
_size, _stride, _address = Tensor.size, Tensor.stride, Tensor.data_ptr


class Slopes:
    """Gradients in the layout of their parameters, which stays."""

    def __init__(self, params: Tensors) -> None:
        self._params = params
        self._sizes, self._strides = [*map(_size, params)], [*map(_stride, params)]

    def laid_out(self, grads: Tensors) -> Tensors:
        """The gradients, or copies where their layout is another. EnforceNotMet of other shapes."""
        if [*map(_size, grads)] != self._sizes:
            for param, grad in zip(self._params, grads, strict=True):
                require_equal("a gradient or state", grad, "its parameter", param.shape)
        if [*map(_stride, grads)] == self._strides:
            return grads
        return as_laid_out(self._params, grads)


class Powers:
    """Tensors of one element that are multiplied by a number each step: read and written at once.

    As numbers they are those that torch would multiply: a product of two float32 is exact in a
    float of Python, and is rounded once as it is written.
    """

    def __init__(self, tensors: Tensors, factor: float) -> None:
        self._tensors = tensors
        self._factor = torch.tensor(factor, dtype=tensors[0].dtype).item()
        self._find()

    def _find(self) -> None:
        arrays: list[Any] = [one.numpy() for one in self._tensors]
        self._places: list[Any] = [memoryview(one) for one in arrays]
        self._addresses = [*map(_address, self._tensors)]

    def common(self) -> float | None:
        """The number that all of them are; None where they differ."""
        if [*map(_address, self._tensors)] != self._addresses:  # `.data` was replaced
            self._find()
        first, *others = [place[0] for place in self._places]
        return first if others.count(first) == len(others) else None

    def multiply(self, power: float) -> None:
        """All of them one step on from that number."""
        power *= self._factor
        for place in self._places:
            place[0] = power


def are_alike(params: Tensors, *states: Tensors) -> bool:
    """Whether all are on the CPU and of one element type, and states lie as their parameters do."""
    pairs = [pair for kept in (params, *states) for pair in zip(params, kept, strict=True)]
    return _taken(*params, *(one for kept in states for one in kept)) and all(
        param.shape == one.shape and laid_out_alike(param, one) for param, one in pairs
    )


def are_numbers(*tensors: Tensor) -> bool:
    """Whether each is one number on the CPU, all of one element type."""
    return _taken(*tensors) and all(one.shape == (1,) for one in tensors)


def _taken(*tensors: Tensor) -> bool:
    kinds = {(one.dtype, one.is_cpu, one.requires_grad) for one in tensors}
    return len(kinds) == 1 and kinds <= {(dtype, True, False) for dtype in _TAKEN}
