"""Parts of a tensor that the last dimension of an index names: gathered, and added to."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_updates
from refluid.ops.sequence.padded import take_rows


@operator("gather_nd", outputs="Out", uses="X Index", differentiable="X")
def gather_nd(X: Tensor, Index: Tensor) -> Tensor:
    """The elements or parts of X that the last dimension of Index names."""
    if Index.shape[-1] == 0:
        return X.expand(*Index.shape[:-1], *X.shape)
    return _named(X, Index)


@gradient("gather_nd")
def gather_nd_grad(X: Tensor, Index: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out added to the parts that Index names, zero elsewhere."""
    if Index.shape[-1] == 0:
        return d_Out.reshape(-1, *X.shape).sum(0)
    return _add_(d_Out.new_zeros(X.shape), Index, d_Out)


@operator(
    "scatter_nd_add",
    gradient_lod="none",
    outputs="Out",
    uses="Index Updates",
    differentiable="X Updates",
)
def scatter_nd_add(X: Tensor, Index: Tensor, Updates: Tensor) -> Tensor:
    """X with Updates added to the parts that the last dimension of Index names."""
    require_updates(X, Index, Updates)
    return _add_(X.clone(memory_format=torch.contiguous_format), Index, Updates)


@gradient("scatter_nd_add", views={"d_X": "d_Out"})
def scatter_nd_add_grad(Index: Tensor, Updates: Tensor, d_Out: Tensor) -> tuple[Tensor, Tensor]:
    """d_X is d_Out, d_Updates what lies at the places of the updates."""
    return d_Out, _named(d_Out, Index)


def _named(X: Tensor, Index: Tensor) -> Tensor:
    if Index.dim() == 1:  # of one part; an element stays of one dimension
        found = _named(X, Index.unsqueeze(0))
        return found.squeeze(0) if found.dim() > 1 else found
    if X.device.type != "cpu":
        return X[tuple(Index.long().unbind(-1))]
    return take_rows(*_parts(X, Index))


def _add_(X: Tensor, Index: Tensor, Updates: Tensor) -> Tensor:
    """X += Updates in the parts that Index names; X is contiguous."""
    if Index.dim() == 1:
        Index, Updates = Index.unsqueeze(0), Updates.reshape(1, *X.shape[Index.shape[0] :])
    if X.device.type != "cpu" or Index.shape[-1] == 0:
        return X.index_put_(tuple(Index.long().unbind(-1)), Updates, accumulate=True)
    rows, number = _parts(X, Index)
    rows.index_add_(0, number.reshape(-1), Updates.reshape(number.numel(), *rows.shape[1:]))
    return X


def _parts(X: Tensor, Index: Tensor) -> tuple[Tensor, Tensor]:
    """X with the dimensions that Index speaks of as one, and the numbers there of what it names.

    On a CPU copying rows takes a third of the time of indexing with several tensors.
    """
    sizes = X.shape[: Index.shape[-1]]
    columns = list(Index.long().unbind(-1))
    lowest, greatest = map(int, Index.aminmax()) if Index.numel() else (0, -1)
    if lowest < 0 or greatest >= min(sizes):  # which few are: then it is seen by dimension
        low, high = (one.tolist() for one in Index.reshape(-1, len(sizes)).aminmax(dim=0))
        if any(a < -size or b >= size for a, b, size in zip(low, high, sizes, strict=True)):
            raise EnforceNotMet(f"indices from {low} to {high} are outside of {list(X.shape)}")
        if min(low) < 0:
            columns = [one.remainder(size) for one, size in zip(columns, sizes, strict=True)]
    number = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        number = torch.add(column, number, alpha=size)
    return X.flatten(0, len(sizes) - 1), number
