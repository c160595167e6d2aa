"""Elements chosen by index, spread over grids and diagonals, and picked from several tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal, require_rows, require_updates
from refluid.ops.sequence.padded import take_rows


@operator("diag_embed", outputs="Out", uses=None, lod="")
def diag_embed(Input: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as diagonals of the planes (dim1, dim2)."""
    return torch.diag_embed(Input, offset, dim1, dim2)


@operator("meshgrid", outputs="Out*", uses="X", lod="")
def meshgrid(X: list[Tensor]) -> list[Tensor]:
    """Each vector along its own dimension of one grid."""
    return [one.contiguous() for one in torch.meshgrid(*X, indexing="ij")]


@gradient("meshgrid")
def meshgrid_grad(X: list[Tensor], d_Out: list[Tensor]) -> list[Tensor]:
    """The sums over the other dimensions."""
    rank = len(X)
    return [
        grad.sum([dim for dim in range(rank) if dim != own]) if rank > 1 else grad.clone()
        for own, grad in enumerate(d_Out)
    ]


@operator("index_select", outputs="Out", uses="X Index", differentiable="X")
def index_select(X: Tensor, Index: Tensor, *, dim: int = 0) -> Tensor:
    """The slices of X along `dim` that Index names."""
    return X.index_select(dim, Index.reshape(-1))


@gradient("index_select")
def index_select_grad(X: Tensor, Index: Tensor, d_Out: Tensor, *, dim: int = 0) -> Tensor:
    """The slices of d_Out added up in their places."""
    return torch.zeros_like(X).index_add_(dim, Index.reshape(-1), d_Out)


@operator(
    "index_sample",
    outputs="Out",
    uses="X Index",
    differentiable="X",
    lod="Index",
    follows={"Out": "Index"},
)
def index_sample(X: Tensor, Index: Tensor) -> Tensor:
    """Out[i, j] = X[i, Index[i, j]]."""
    if not X.is_meta and X.shape[0] != Index.shape[0]:
        raise EnforceNotMet(f"X {list(X.shape)} and Index {list(Index.shape)} differ in rows")
    return X.gather(1, Index.long())


@gradient("index_sample", bare=True)
def index_sample_grad(X: Tensor, Index: Tensor, d_Out: Tensor) -> Tensor:
    """The elements of d_Out added up in their places."""
    return torch.zeros_like(X).scatter_add_(1, Index.long(), d_Out)


@operator(
    "multiplex",
    gradient_lod="none",
    outputs="Out",
    uses="Ids",
    differentiable="X",
    infer=infer_like("Out", "X"),
    lod="",
)
def multiplex(X: list[Tensor], Ids: Tensor) -> Tensor:
    """Row i of Out is row i of X[Ids[i]]; Ids is int32 (rows, 1)."""
    if len(X) < 2:
        raise EnforceNotMet(
            f"multiplex should have more than one candidate input tensors, but received {len(X)}"
        )
    out = torch.empty_like(X[0], memory_format=torch.contiguous_format)
    for number, one in enumerate(X[1:], 1):
        require_equal(f"X[{number}]", one, "X[0]", X[0].shape)
    require_rows("Ids", Ids, "each candidate", len(X[0]))
    if Ids.is_meta or not Ids.numel():
        return out
    lowest, greatest = map(int, Ids.aminmax())
    if lowest < 0:
        raise EnforceNotMet("index must be nonnegative: Ids name candidates, counted from 0")
    if greatest >= len(X):
        raise EnforceNotMet(f"Ids name candidate {greatest}, counted from 0, of {len(X)}")
    for one, rows in zip(X, _rows_of_each(Ids, len(X)), strict=True):
        out.index_copy_(0, rows, one.index_select(0, rows))
    return out


@gradient("multiplex")
def multiplex_grad(Ids: Tensor, d_Out: Tensor, *, counts: Sequence[int]) -> list[Tensor]:
    """The rows of d_Out that were taken of each candidate, zero elsewhere."""
    return [
        torch.zeros_like(d_Out).index_copy_(0, rows, d_Out.index_select(0, rows))
        for rows in _rows_of_each(Ids, counts[0])
    ]


def _rows_of_each(Ids: Tensor, candidates: int) -> Iterator[Tensor]:
    """The rows that are taken of each candidate."""
    chosen = Ids.reshape(-1)
    return ((chosen == number).nonzero().view(-1) for number in range(candidates))


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
