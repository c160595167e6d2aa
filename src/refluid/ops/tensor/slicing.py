"""Parts of tensors: slices, gathered and scattered rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.reading import integers, is_unknown, unknown
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_index

_FULL = slice(None)


def _ranges(
    X: Tensor, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int]
) -> tuple[slice, ...]:
    parts = [_FULL] * X.dim()
    for axis, start, end in zip(axes, starts, ends, strict=True):
        size = X.shape[axis]
        first = max(start + size if start < 0 else start, 0)
        last = max(end + size if end < 0 else end, 0)
        parts[axis] = slice(first, max(min(last, size), first))
    return tuple(parts)


def _check_bounds(X: Tensor, axes: Sequence[int], *bounds: Sequence[int]) -> None:
    """EnforceNotMet where the attributes leave nothing of a size that is known."""
    for axis, *ends in zip(axes, *bounds, strict=False):
        size = X.shape[axis]
        if size and not (X.is_meta and is_unknown(size)) and not _part(size, *ends):
            raise EnforceNotMet(
                f"end should be greater than start, but of axis {axis} of size {size} "
                f"{':'.join(map(str, ends))} takes nothing: the input is {list(X.shape)}"
            )


def _part(size: int, start: int, end: int, stride: int = 1) -> range:
    """The positions that `[start:end:stride]` takes of a dimension."""
    return range(*slice(start, end, stride).indices(size))


def _decreased(out: Tensor, axes: Sequence[int]) -> Tensor:
    """`out` without the dimensions `axes`, but of at least one dimension."""
    if not axes:
        return out
    out = out.squeeze(tuple(axes))
    return out if out.dim() else out.reshape(1)


def _sliced_shape(
    Input: Tensor,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    infer_flags: Sequence[int],
    decrease_axis: Sequence[int],
) -> Tensor:
    """A slice of a tensor without values; of an unknown size, an unknown number is left."""
    shape = list(Input.shape)
    for place, axis in enumerate(axes):
        if axis in decrease_axis:
            shape[axis] = 1
        elif -1 in infer_flags[place : place + 1] or is_unknown(shape[axis]):
            shape[axis] = unknown()
        else:
            shape[axis] = len(_part(shape[axis], starts[place], ends[place]))
    return _decreased(Input.new_empty(shape), decrease_axis)


def _lod(op: Operator) -> str:
    """Sequences stay unless rows are sliced first."""
    return "" if op.attr("axes")[:1] == [0] else "Input"


@operator(
    "slice",
    gradient_lod="none",
    outputs="Out",
    uses="Input StartsTensor EndsTensor StartsTensorList EndsTensorList",
    differentiable="Input",
    views={"Out": "Input"},
    lod=_lod,
    by_autograd="always",
)
def slice_(
    Input: Tensor,
    StartsTensor: Tensor | None = None,
    EndsTensor: Tensor | None = None,
    StartsTensorList: list[Tensor] | None = None,
    EndsTensorList: list[Tensor] | None = None,
    *,
    axes: Sequence[int],
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
    infer_flags: Sequence[int] = (),
    decrease_axis: Sequence[int] = (),
) -> Tensor:
    """Input[start:end] along each of `axes`, then without the dimensions `decrease_axis`.

    Negative positions count from the end. Tensors replace the attributes of the same name.
    """
    if -1 not in infer_flags and StartsTensor is None and EndsTensor is None:
        _check_bounds(Input, axes, starts, ends)
    if Input.is_meta:
        return _sliced_shape(Input, axes, starts, ends, infer_flags, decrease_axis)
    starts = integers(starts, StartsTensor, StartsTensorList)
    ends = integers(ends, EndsTensor, EndsTensorList)
    return _decreased(Input[_ranges(Input, axes, starts, ends)], decrease_axis)


@gradient("slice")
def slice_grad(
    Input: Tensor,
    StartsTensor: Tensor | None,
    EndsTensor: Tensor | None,
    StartsTensorList: list[Tensor] | None,
    EndsTensorList: list[Tensor] | None,
    d_Out: Tensor,
    *,
    axes: Sequence[int],
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
) -> Tensor:
    """d_Out in its place, zero elsewhere."""
    starts = integers(starts, StartsTensor, StartsTensorList)
    ends = integers(ends, EndsTensor, EndsTensorList)
    d_Input = torch.zeros_like(Input)
    part = d_Input[_ranges(Input, axes, starts, ends)]
    part.copy_(d_Out.reshape(part.shape))
    return d_Input


@operator(
    "strided_slice",
    outputs="Out",
    uses="Input StartsTensor EndsTensor StridesTensor StartsTensorList EndsTensorList "
    "StridesTensorList",
    differentiable="Input",
    views={"Out": "Input"},
)
def strided_slice(
    Input: Tensor,
    StartsTensor: Tensor | None = None,
    EndsTensor: Tensor | None = None,
    StridesTensor: Tensor | None = None,
    StartsTensorList: list[Tensor] | None = None,
    EndsTensorList: list[Tensor] | None = None,
    StridesTensorList: list[Tensor] | None = None,
    *,
    axes: Sequence[int],
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
    strides: Sequence[int] = (),
    infer_flags: Sequence[int] = (),
    decrease_axis: Sequence[int] = (),
) -> Tensor:
    """Input[start:end:stride] along each of `axes`; a negative stride goes backwards."""
    if -1 not in infer_flags:
        _check_bounds(Input, axes, starts, ends, strides)
    if Input.is_meta:
        shape = list(Input.shape)
        for place, axis in enumerate(axes):
            if -1 in infer_flags[place : place + 1] or is_unknown(shape[axis]):
                shape[axis] = unknown()
            else:
                part = _part(shape[axis], starts[place], ends[place], strides[place])
                shape[axis] = len(part)
        return Input.new_empty(shape)
    starts = integers(starts, StartsTensor, StartsTensorList)
    ends = integers(ends, EndsTensor, EndsTensorList)
    strides = integers(strides, StridesTensor, StridesTensorList)
    out, parts, turned = Input, [_FULL] * Input.dim(), []
    for axis, start, end, stride in zip(axes, starts, ends, strides, strict=True):
        chosen = _part(Input.shape[axis], start, end, stride)
        if stride < 0:
            chosen = chosen[::-1]
            turned.append(axis)
        parts[axis] = slice(chosen.start, max(chosen.stop, chosen.start), abs(stride))
    out = out[tuple(parts)]
    return _decreased(out.flip(turned) if turned else out, decrease_axis)


@operator("gather", outputs="Out", uses="X Index", differentiable="X", rows={"X": "Index"})
def gather(X: Tensor, Index: Tensor, *, overwrite: bool = True) -> Tensor:
    """The rows of X that the integers Index (n,) or (n, 1) name."""
    require_index("Index", Index)
    return X.index_select(0, Index.reshape(-1))


@gradient("gather")
def gather_grad(X: Tensor, Index: Tensor, d_Out: Tensor, *, overwrite: bool = True) -> Tensor:
    """The rows of d_Out in their places; of a row taken twice the last counts, or their sum."""
    rows = Index.reshape(-1).long()
    if not overwrite:
        return torch.zeros_like(X).index_add_(0, rows, d_Out)
    count = rows.numel()
    source = rows.new_full((X.shape[0],), count)  # of each row, the row of d_Out that it gets
    source.index_copy_(0, rows, torch.arange(count, device=rows.device))
    return torch.cat((d_Out, d_Out.new_zeros(1, *X.shape[1:]))).index_select(0, source)


@operator(
    "scatter",
    gradient_lod="none",
    outputs="Out",
    uses="Ids Updates",
    differentiable="X Updates",
    rows={"X": "Ids"},
)
def scatter(X: Tensor, Ids: Tensor, Updates: Tensor, *, overwrite: bool = True) -> Tensor:
    """X with the rows Ids replaced by Updates; not overwrite: by the sum of their Updates."""
    require_index("Ids", Ids)
    rows = Ids.reshape(-1).long()
    if overwrite:
        return X.index_copy(0, rows, Updates)
    return X.index_fill(0, rows, 0.0).index_add_(0, rows, Updates)


@gradient("scatter", views={"d_X": "d_Out"}, once=True)
def scatter_grad(
    Ids: Tensor, Updates: Tensor, d_Out: Tensor, *, overwrite: bool = True
) -> tuple[Tensor, Tensor]:
    """d_X is d_Out, also in the rows that were replaced; d_Updates are these rows of d_Out."""
    return d_Out, d_Out.index_select(0, Ids.reshape(-1).long())
