"""Shapes and places of elements that Paddle 2 has operators for beside Fluid's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import rank
from refluid.ops.reading import integers, unknown
from refluid.ops.registry import operator


@operator("expand_v2", outputs="Out", uses="X", gradient_lod="none", lod="")
def expand_v2(
    X: Tensor,
    Shape: Tensor | None = None,
    expand_shapes_tensor: list[Tensor] | None = None,
    *,
    shape: Sequence[int] = (),
) -> Tensor:
    """X broadcast to a shape; -1 keeps the size."""
    sizes = integers(shape, Shape, expand_shapes_tensor)
    if len(sizes) < X.dim():
        raise EnforceNotMet(f"the shape {list(sizes)} has fewer dimensions than X, {list(X.shape)}")
    return X.expand(*sizes).contiguous()


@operator("repeat_interleave", outputs="Out", uses="X RepeatsTensor", differentiable="X", lod="")
def repeat_interleave(
    X: Tensor, RepeatsTensor: Tensor | None = None, *, Repeats: int = 0, dim: int = 0
) -> Tensor:
    """Each part along `dim` as often as said, one after another."""
    if RepeatsTensor is None:
        return X.repeat_interleave(Repeats, dim)
    if X.is_meta:
        shape = list(X.shape)
        shape[dim] = unknown()
        return X.new_empty(shape)
    return X.repeat_interleave(RepeatsTensor, dim)


@operator("take_along_axis", outputs="Result", uses="Input Index", differentiable="Input")
def take_along_axis(Input: Tensor, Index: Tensor, *, Axis: int = 0) -> Tensor:
    """The elements along `Axis` that Index names."""
    return torch.gather(Input, Axis, Index.to(torch.int64))


_REDUCTIONS = {
    "add": "sum",
    "mul": "prod",
    "multiply": "prod",
    "mean": "mean",
    "amin": "amin",
    "amax": "amax",
}


@operator(
    "put_along_axis", outputs="Result", uses="Input Value Index", differentiable="Input Value"
)
def put_along_axis(
    Input: Tensor,
    Value: Tensor,
    Index: Tensor,
    *,
    Axis: int = 0,
    Reduce: str = "assign",
    Include_self: bool = True,
) -> Tensor:
    """Input with Value put to where Index says along `Axis`, or reduced with what is there.

    Reduce: assign, add, mul, mean, amin or amax. Include_self: what was there counts, too.
    """
    place, value = Index.to(torch.int64), Value.expand(Index.shape).to(Input.dtype)
    if Reduce == "assign":
        return Input.scatter(Axis, place, value)
    if Reduce not in _REDUCTIONS:
        raise EnforceNotMet(f"Reduce is {Reduce!r}, not one of assign, {', '.join(_REDUCTIONS)}")
    how = _REDUCTIONS[Reduce]
    return Input.scatter_reduce(Axis, place, value, how, include_self=Include_self)


@operator("index_add", outputs="Out", uses="Index X AddValue", differentiable="X AddValue")
def index_add(Index: Tensor, X: Tensor, AddValue: Tensor, *, axis: int = 0) -> Tensor:
    """X with the parts of AddValue added to those along `axis` that Index names."""
    return X.index_add(axis, Index, AddValue)


@operator("sorted_unique", outputs="Out Indices Index Counts", uses=None, lod="")
def sorted_unique(
    X: Tensor, *, axis: Sequence[int] = (), dtype: int = 3
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct elements, or parts along an axis, in order.

    Then where each occurs first, for each of X its place among them, and how often each occurs.
    """
    kind = to_torch(VarType(dtype))
    along = axis[0] if axis else 0
    x = X if axis else X.reshape(-1)
    if X.is_meta:
        shape = list(x.shape)
        shape[along] = unknown()
        several = X.new_empty(shape[along], dtype=kind)
        return X.new_empty(shape), several, X.new_empty(x.shape[along], dtype=kind), several
    values, place, count = torch.unique(x, return_inverse=True, return_counts=True, dim=along)
    position = torch.arange(place.numel(), device=X.device)
    first = torch.full_like(count, place.numel()).scatter_reduce_(0, place, position, "amin")
    return values, first.to(kind), place.to(kind), count.to(kind)


@operator("unique_consecutive", outputs="Out Index Counts", uses=None, lod="")
def unique_consecutive(
    X: Tensor, *, axis: Sequence[int] = (), dtype: int = 3
) -> tuple[Tensor, Tensor, Tensor]:
    """X without elements equal to the one before; the place of each, and lengths of the runs."""
    kind = to_torch(VarType(dtype))
    along = axis[0] if axis else 0
    x = X if axis else X.reshape(-1)
    if X.is_meta:
        shape = list(x.shape)
        shape[along] = unknown()
        several = X.new_empty(shape[along], dtype=kind)
        return X.new_empty(shape), X.new_empty(x.shape[along], dtype=kind), several
    values, place, count = torch.unique_consecutive(
        x, return_inverse=True, return_counts=True, dim=along
    )
    return values, place.to(kind), count.to(kind)


@operator("pad3d", outputs="Out", uses="X")
def pad3d(
    X: Annotated[Tensor, rank(3, 4, 5)],
    *,
    paddings: Sequence[int],
    mode: str = "reflect",
    data_format: str = "NCDHW",
) -> Tensor:
    """X (N, C, ..) with elements around it, before and after each dimension after the second.

    mode: reflect, replicate or circular. Channels are the last dimension where `data_format` says
    so.
    """
    if mode not in ("reflect", "replicate", "circular"):
        raise EnforceNotMet(f"pad takes modes reflect, replicate and circular, not {mode!r}")
    last = data_format.endswith("C")
    pairs = [paddings[place : place + 2] for place in range(0, len(paddings), 2)]
    out = F.pad(X.movedim(-1, 1) if last else X, [n for pair in pairs[::-1] for n in pair], mode)
    return out.movedim(1, -1) if last else out
