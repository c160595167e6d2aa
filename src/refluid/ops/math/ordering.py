"""Positions and order: top_k, arg_max, argsort, cumsum, where."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_by_probing, share_lod_level
from refluid.ops.math.partial_sort import partially_sorted
from refluid.ops.reading import unknown
from refluid.ops.registry import GradOp, OperatorDef, gradient, operator
from refluid.ops.required import require_axis
from refluid.ops.signature import Long


def _kind(dtype: int) -> torch.dtype:
    return torch.int64 if dtype < 0 else to_torch(VarType(dtype))


@operator("arg_max", outputs="Out", uses=None, lod="")
def arg_max(X: Tensor, *, axis: Long, keepdims: bool = False, dtype: int = -1) -> Tensor:
    """Position of the largest element along `axis`; dtype -1 is int64."""
    return _shaped(X.argmax(axis, keepdims)).to(_kind(dtype))


@operator("arg_min", outputs="Out", uses=None, lod="")
def arg_min(X: Tensor, *, axis: Long, keepdims: bool = False, dtype: int = -1) -> Tensor:
    """Position of the smallest element along `axis`; dtype -1 is int64."""
    return _shaped(X.argmin(axis, keepdims)).to(_kind(dtype))


def _shaped(out: Tensor) -> Tensor:
    return out if out.dim() else out.reshape(1)


@operator("argsort", outputs="Out Indices", uses="X Indices", differentiable="X")
def argsort(X: Tensor, *, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """X sorted along `axis`, and where its elements were (int64)."""
    require_axis(X, axis)
    values, indices = torch.sort(X, dim=axis, descending=descending)
    return values, indices


@gradient("argsort")
def argsort_grad(X: Tensor, Indices: Tensor, d_Out: Tensor, *, axis: int = -1) -> Tensor:
    """d_Out put back where its elements came from."""
    return torch.zeros_like(X).scatter_(axis, Indices, d_Out)


def cumsum_gradient(op: Operator) -> list[GradOp]:
    """The sums from the other end."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    outputs = {"Out": [name + GRAD for name in op.input("X")]}
    attrs = dict(op.attrs) | {"reverse": not op.attr("reverse")}
    return [GradOp("cumsum", inputs, outputs, attrs)]


@operator("cumsum", outputs="Out", maker=cumsum_gradient)
def cumsum(X: Tensor, *, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Sums of the elements up to each one along `axis`, from the end with `reverse`.

    exclusive: without the element itself.
    """
    x = X.flip(axis) if reverse else X
    out = x.cumsum(axis, dtype=X.dtype)
    if exclusive:
        out -= x
    return out.flip(axis) if reverse else out


@operator("where", outputs="Out", uses="Condition X Y", differentiable="X Y")
def where(Condition: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    """X where the bool Condition holds, else Y."""
    return torch.where(Condition, X, Y)


@gradient("where")
def where_grad(Condition: Tensor, X: Tensor, Y: Tensor, d_Out: Tensor) -> tuple[Tensor, Tensor]:
    """d_Out where the condition holds for X, where it doesn't for Y."""
    return d_Out * Condition, d_Out * ~Condition


@operator("where_index", outputs="Out", uses=None, lod="")
def where_index(Condition: Tensor) -> Tensor:
    """Positions (n, rank) of the elements that are not zero, int64."""
    if Condition.is_meta:
        return Condition.new_empty((unknown(), Condition.dim()), dtype=torch.int64)
    return torch.nonzero(Condition)


def infer_top_k(definition: OperatorDef, op: Operator) -> None:
    """Fluid's rule: where K is a variable, the last size is what the attribute says."""
    x = op.block.var_recursive(op.input("X")[0])
    if not op.input("K") or not x.has_description():
        infer_by_probing(definition, op)
        return
    shape = (*x.shape[:-1], op.attrs.get("k", 1))
    for slot, kind in (("Out", x.dtype), ("Indices", VarType.INT64)):
        op.block.var_recursive(op.output(slot)[0]).describe(shape=shape, dtype=kind)
    share_lod_level(definition, op)


@operator(
    "top_k",
    gradient_lod="none",
    outputs="Out Indices",
    uses="X Indices",
    differentiable="X",
    infer=infer_top_k,
)
def top_k(X: Tensor, K: Tensor | None = None, *, k: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest elements of the last dimension, largest first, and their int64 positions.

    Equal elements come in the order in which Fluid's partial sort finds them.
    """
    count = k if K is None else int(K.flatten()[0])
    if K is None and not 1 <= k <= X.shape[-1]:
        raise EnforceNotMet(
            f"k has to be at least 1 and at most the size of the last dimension, but is {count}: "
            f"X is {list(X.shape)}"
        )
    if count == 1:
        values, indices = X.max(-1, keepdim=True)
        return values, indices
    return partially_sorted(X, count)


@gradient("top_k", bare=True)
def top_k_grad(X: Tensor, Indices: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out at the chosen positions, zero elsewhere."""
    return torch.zeros_like(X).scatter_(-1, Indices, d_Out)
