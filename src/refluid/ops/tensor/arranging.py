"""Elements chosen by index, spread over grids and diagonals, and picked from several tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.infer import infer_like
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal, require_rows


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
