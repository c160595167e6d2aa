"""All elements of an array as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensorArray
from refluid.ir.operator import Operator
from refluid.ops.control.lod_arrays import data_of, written
from refluid.ops.registry import OperatorDef, gradient, operator


def _infer(definition: OperatorDef, op: Operator) -> None:
    """The axis of the result is as long as the array, or as all elements: unknown."""
    (source,), (out,) = op.input("X"), op.output("Out")
    var = op.block.var_recursive(source)
    if var.has_description():
        shape, axis = list(var.shape), op.attr("axis")
        if op.attr("use_stack"):
            shape.insert(axis if axis >= 0 else axis + len(shape) + 1, -1)
        elif shape:
            shape[axis] = -1
        op.block.var_recursive(out).describe(shape=shape, dtype=var.dtype)
    for name in op.output("OutIndex"):
        op.block.var_recursive(name).dtype = VarType.INT32


def _parts(array: LoDTensorArray) -> list[Tensor]:
    parts = [data_of(item) for item in array if written(item)]
    if not parts:
        raise EnforceNotMet("tensor_array_to_tensor: the array has no elements")
    return parts


@operator("tensor_array_to_tensor", outputs="Out OutIndex?", uses="X", lod="", infer=_infer)
def tensor_array_to_tensor(
    X: LoDTensorArray, *, axis: int = 0, use_stack: bool = False
) -> tuple[Tensor, Tensor]:
    """All elements, concatenated or stacked along `axis`; OutIndex has their own sizes there."""
    parts = _parts(X)
    out = torch.stack(parts, axis) if use_stack else torch.cat(parts, axis)
    sizes = [part.shape[axis] if axis < part.dim() else 1 for part in parts]
    return out, torch.tensor(sizes, dtype=torch.int32, device=out.device)


@gradient("tensor_array_to_tensor")
def tensor_array_to_tensor_grad(
    X: LoDTensorArray, d_Out: Tensor, *, axis: int = 0, use_stack: bool = False
) -> LoDTensorArray:
    """The part of each element."""
    if use_stack:
        return LoDTensorArray(torch.unbind(d_Out, axis))
    sizes: Sequence[int] = [part.shape[axis] for part in _parts(X)]
    return LoDTensorArray(torch.split(d_Out, list(sizes), axis))
