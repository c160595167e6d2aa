"""The same columns of several matrices, side by side or added up."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.ops.registry import gradient, operator


def _columns(x: Tensor, start: int, length: int) -> tuple[int, int]:
    """First column and the one after the last; a negative length takes all that is left."""
    begin = start + x.shape[1] if start < 0 else start
    return begin, x.shape[1] if length < 0 else begin + length


def _parts(X: list[Tensor], start: int, length: int) -> list[Tensor]:
    begin, end = _columns(X[0], start, length)
    return [x[:, begin:end] for x in X]


def _spread(X: list[Tensor], grads: list[Tensor], start: int, length: int) -> list[Tensor]:
    begin, end = _columns(X[0], start, length)
    return [F.pad(grad, (begin, x.shape[1] - end)) for x, grad in zip(X, grads, strict=True)]


@operator("partial_concat", outputs="Out", uses="X")
def partial_concat(X: list[Tensor], *, start_index: int = 0, length: int = -1) -> Tensor:
    """Columns start_index .. start_index + length of all X, (N, C) each, side by side."""
    return torch.cat(_parts(X, start_index, length), 1)


@gradient("partial_concat", bare=True)
def partial_concat_grad(
    X: list[Tensor], d_Out: Tensor, *, start_index: int = 0, length: int = -1
) -> list[Tensor]:
    """d_Out put back, zeros around it."""
    return _spread(X, list(d_Out.chunk(len(X), 1)), start_index, length)


@operator("partial_sum", outputs="Out", uses="X", extra={"use_mkldnn": False})
def partial_sum(X: list[Tensor], *, start_index: int = 0, length: int = -1) -> Tensor:
    """The sum of columns start_index .. start_index + length of all X, (N, C) each."""
    return torch.stack(_parts(X, start_index, length)).sum(0)


@gradient("partial_sum")
def partial_sum_grad(
    X: list[Tensor], d_Out: Tensor, *, start_index: int = 0, length: int = -1
) -> list[Tensor]:
    """d_Out for each X, zeros around it."""
    return _spread(X, [d_Out] * len(X), start_index, length)
