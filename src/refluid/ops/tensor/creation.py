"""Tensors made from nothing: constants, ranges, and the sizes of other tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels
from refluid.ops.reading import integers, unknown
from refluid.ops.registry import operator
from refluid.ops.signature import Long, Longs


def batch_shape(
    shape: Sequence[int], Input: Tensor, input_dim_idx: int, output_dim_idx: int
) -> list[int]:
    """`shape` with the size at `output_dim_idx` taken from Input's at `input_dim_idx`."""
    sizes = list(shape)
    sizes[output_dim_idx] = Input.shape[input_dim_idx]
    return sizes


def _number(value: float, text: str) -> float | int:
    """The filling of a constant: `text` is the value with all its digits, where there is one."""
    if not text:
        return value
    try:
        return int(text)
    except ValueError:
        return float(text)


@operator("fill_constant", outputs="Out", uses=None, lod="", views={"Out": "ValueTensor"})
def fill_constant(
    ValueTensor: Tensor | None = None,
    ShapeTensor: Tensor | None = None,
    ShapeTensorList: list[Tensor] | None = None,
    *,
    dtype: int = 5,
    shape: Longs = (),
    value: float = 0.0,
    str_value: str = "",
    force_cpu: bool = False,
    device: torch.device,
) -> Tensor:
    """A tensor of `shape` filled with `value`; `str_value` is the same with all its digits."""
    sizes = integers(shape, ShapeTensor, ShapeTensorList)
    kind = to_torch(VarType(dtype))
    if ValueTensor is None:
        return torch.full(sizes, _number(value, str_value), dtype=kind, device=device)
    return ValueTensor.to(kind).reshape(()).expand(sizes).contiguous()


@operator("fill_constant_batch_size_like", outputs="Out", uses=None, lod="")
def fill_constant_batch_size_like(
    Input: Tensor,
    *,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    dtype: int = 5,
    value: float = 0.0,
    str_value: str = "",
    force_cpu: bool = False,
    lod_Input: Levels = (),
) -> Tensor:
    """A constant of `shape`, one size of which is that of Input.

    Of sequences it is their number, where that of rows is asked for.
    """
    sizes = batch_shape(shape, Input, input_dim_idx, output_dim_idx)
    if lod_Input and input_dim_idx == 0:
        sizes[output_dim_idx] = len(lod_Input[-1])
    kind = to_torch(VarType(dtype))
    return torch.full(sizes, _number(value, str_value), dtype=kind, device=Input.device)


@operator("fill_zeros_like", outputs="Out", uses=None)
def fill_zeros_like(X: Tensor) -> Tensor:
    """Zeros of X's shape and type."""
    return torch.zeros_like(X)


@operator("fill_any_like", outputs="Out", uses=None)
def fill_any_like(X: Tensor, *, value: float = 0.0, dtype: int = -1) -> Tensor:
    """`value` in X's shape; dtype -1 is X's."""
    return torch.full_like(X, value, dtype=X.dtype if dtype < 0 else to_torch(VarType(dtype)))


@operator("assign_value", outputs="Out", uses=None, lod="")
def assign_value(
    *,
    shape: Sequence[int],
    dtype: int,
    bool_values: Sequence[int] = (),
    fp32_values: Sequence[float] = (),
    int32_values: Sequence[int] = (),
    int64_values: Longs = (),
    device: torch.device,
) -> Tensor:
    """The given values in `shape`."""
    values = {
        VarType.BOOL: bool_values,
        VarType.FP32: fp32_values,
        VarType.INT32: int32_values,
        VarType.INT64: int64_values,
    }
    kind = VarType(dtype)
    made = torch.tensor(list(values[kind]), dtype=to_torch(kind), device=device)
    return made.reshape(tuple(shape))


@operator("eye", outputs="Out", uses=None, lod="")
def eye(*, dtype: int = 5, num_rows: Long, num_columns: Long = -1, device: torch.device) -> Tensor:
    """Ones on the diagonal, zeros elsewhere; num_columns -1: as many as rows."""
    columns = num_rows if num_columns < 0 else num_columns
    return torch.eye(num_rows, columns, dtype=to_torch(VarType(dtype)), device=device)


@operator("linspace", outputs="Out", uses=None, lod="")
def linspace(Start: Tensor, Stop: Tensor, Num: Tensor) -> Tensor:
    """Num (int32) evenly spaced numbers from Start to Stop, both included."""
    if Start.is_meta:
        return Start.new_empty(unknown())
    count = int(Num.item())
    if count < 1:
        raise EnforceNotMet(
            f"The num of linspace op should be larger than 0, but received num is {count}"
        )
    if count == 1:
        return Start.reshape(1).clone()
    step = (Stop - Start) / (count - 1)
    return Start + step * torch.arange(count, dtype=Start.dtype, device=Start.device)


@operator("range", outputs="Out", uses=None, lod="")
def range(Start: Tensor, End: Tensor, Step: Tensor) -> Tensor:
    """Start, Start + Step, ... up to but without End."""
    if Start.is_meta:
        return Start.new_empty(unknown())
    start, step = Start.item(), Step.item()
    if step == 0 or ((step > 0) != (End.item() > start) and End.item() != start):
        raise EnforceNotMet(
            f"The step should lead from start to end, but start is {start}, end {End.item()} and "
            f"step {step}"
        )
    count = max(math.ceil((End.item() - start) / step), 0)
    counted = torch.arange(count, dtype=Start.dtype, device=Start.device)
    return counted.mul_(step).add_(start)


@operator("shape", outputs="Out", uses=None, lod="")
def shape(Input: Tensor, *, device: torch.device) -> Tensor:
    """The shape of Input as int32 tensor of one dimension."""
    return torch.tensor(Input.shape, dtype=torch.int32, device=device)


@operator("size", outputs="Out", uses=None, lod="")
def size(Input: Tensor, *, device: torch.device) -> Tensor:
    """The number of elements of Input, int64 of shape (1,)."""
    return torch.full((1,), Input.numel(), dtype=torch.int64, device=device)


@operator("is_empty", outputs="Out", uses=None, lod="")
def is_empty(X: Tensor, *, device: torch.device) -> Tensor:
    """Whether X has no element: bool of shape (1,)."""
    return torch.full((1,), X.numel() == 0, device=device)


@operator("diag", outputs="Out", uses=None)
def diag(Diagonal: Tensor) -> Tensor:
    """The square matrix with that diagonal."""
    return torch.diag(Diagonal)
