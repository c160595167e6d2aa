"""Shapes: reshape, transpose, squeeze, flatten, expand and what reads a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.layers.tensor_lists import Sizes, constant_of, mixed
from refluid.ir.variable import Variable


def _reshaped(
    helper: LayerHelper,
    op_type: str,
    inputs: dict[str, Any],
    attrs: dict[str, Any],
    out: Variable | None = None,
) -> Variable:
    """Appends an operator that also records the shape it was given, in `XShape`."""
    dtype = inputs["X"].dtype
    out = helper.create_variable_for_type_inference(dtype) if out is None else out
    before = helper.create_variable_for_type_inference(dtype)
    return helper.emit(op_type, inputs, attrs, out=out, more={"XShape": [before]})


def reshape(
    x: Variable,
    shape: Sizes,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """`x` in another shape of as many elements.

    In `shape`, -1 (once) is inferred and 0 copies that dimension of `x`; entries may be
    variables of shape (1,), or all of it one variable. actual_shape: a whole-number variable
    that wins over `shape`. inplace: the result keeps the name of `x`.

    Raises TypeError for a shape that is none, ValueError for two -1 or a 0 beyond `x`.
    """
    if not isinstance(shape, list | tuple | Variable):
        raise TypeError(f"reshape: shape must be a list, a tuple or a Variable, not {shape!r}")
    helper = LayerHelper("reshape2", act=act, name=name)
    inputs, sizes = mixed(shape, "reshape", "Shape", "ShapeTensor", constant_of(helper))
    if isinstance(shape, list | tuple):
        _require_shape(x, shape)
    if actual_shape is not None:
        actual_shape.stop_gradient = True
        inputs = {"Shape": actual_shape}
    out = _reshaped(helper, "reshape2", {"X": x} | inputs, {"shape": sizes}, x if inplace else None)
    return helper.append_activation(out)


def _require_shape(x: Variable, shape: Sequence[Any]) -> None:
    numbers = [-2 if isinstance(size, Variable) else int(size) for size in shape]
    if numbers.count(-1) > 1:
        raise ValueError(f"reshape: only one dimension of {numbers} may be -1")
    for position, size in enumerate(numbers):
        if size == 0 and position >= len(x.shape):
            raise ValueError(
                f"reshape: {numbers}[{position}] is 0, but {x.name} has {len(x.shape)} dimensions"
            )
        if size < -1 and not isinstance(shape[position], Variable):
            raise ValueError(f"reshape: dimension {position} of {numbers} can't be {size}")


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """`x` with its dimensions in the order `perm`. ValueError unless `perm` is one."""
    if sorted(perm) != list(range(len(x.shape))):
        raise ValueError(
            f"transpose: perm {list(perm)} must name each of the {len(x.shape)} dimensions of "
            f"{x.name} once"
        )
    return _reshaped(LayerHelper("transpose", name=name), "transpose2", {"X": x}, {"axis": perm})


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Drops the dimensions `axes` of size 1 (all such where `axes` is empty)."""
    return _reshaped(LayerHelper("squeeze", name=name), "squeeze2", {"X": input}, {"axes": axes})


def unsqueeze(
    input: Variable, axes: int | Sequence[int | Variable] | Variable, name: str | None = None
) -> Variable:
    """Adds dimensions of size 1 at the positions `axes` of the result."""
    helper = LayerHelper("unsqueeze2", name=name)
    axes = [axes] if isinstance(axes, int) else axes
    inputs, attribute = mixed(
        axes, "unsqueeze", "AxesTensor", "AxesTensorList", constant_of(helper)
    )
    attrs = {"axes": None if "AxesTensorList" in inputs else attribute}
    return _reshaped(helper, "unsqueeze2", {"X": input} | inputs, attrs)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the first `axis` dimensions by the others. ValueError for axis out of range."""
    helper = LayerHelper("flatten", name=name)
    if not isinstance(axis, int) or not 0 <= axis <= len(x.shape):
        raise ValueError(f"flatten: axis {axis} must lie in 0 .. {len(x.shape)}")
    return _reshaped(helper, "flatten2", {"X": x}, {"axis": axis})


def expand(x: Variable, expand_times: Sizes, name: str | None = None) -> Variable:
    """`x` repeated `expand_times[i]` times along dimension i."""
    helper = LayerHelper("expand", input=x, name=name)
    inputs, attribute = mixed(
        expand_times, "expand", "ExpandTimes", "expand_times_tensor", constant_of(helper)
    )
    return helper.emit("expand", {"X": x} | inputs, {"expand_times": attribute})


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """`x` repeated to the shape of `target_tensor`, whose sizes are multiples of its own."""
    helper = LayerHelper("expand_as", input=x, name=name)
    return helper.emit("expand_as", {"X": x, "target_tensor": target_tensor})


def shape(input: Variable) -> Variable:
    """The sizes of all dimensions, an int32 variable of shape (rank,)."""
    return LayerHelper("shape").emit("shape", {"Input": input}, dtype=VarType.INT32)


def size(input: Variable) -> Variable:
    """The number of elements, an int64 variable of shape (1,)."""
    return LayerHelper("size").emit("size", {"Input": input}, dtype=VarType.INT64)
