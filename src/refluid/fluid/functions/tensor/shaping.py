"""Shapes: reshape, transpose, squeeze, flatten, expand and what reads a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.core.whole import is_whole
from refluid.fluid.functions.tensor.tensor_lists import Sizes, constant_of, mixed
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


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
    out = x if inplace else None
    made = op("reshape2", {"X": x} | inputs, {"shape": sizes}, out=out, layer=helper)
    return helper.append_activation(made)


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
    return op("transpose2", {"X": x}, {"axis": perm}, layer="transpose", name=name)


def squeeze(input: Variable, axes: Sequence[int], name: str | None = None) -> Variable:
    """Drops the dimensions `axes` of size 1 (all such where `axes` is empty)."""
    return op("squeeze2", {"X": input}, {"axes": axes}, layer="squeeze", name=name)


def unsqueeze(
    input: Variable, axes: int | Sequence[int | Variable] | Variable, name: str | None = None
) -> Variable:
    """Adds dimensions of size 1 at the positions `axes` of the result."""
    helper = LayerHelper("unsqueeze2", name=name)
    axes = [axes] if is_whole(axes) else axes
    inputs, attribute = mixed(
        axes, "unsqueeze", "AxesTensor", "AxesTensorList", constant_of(helper)
    )
    attrs = {"axes": None if "AxesTensorList" in inputs else attribute}
    return op("unsqueeze2", {"X": input} | inputs, attrs, layer=helper)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the first `axis` dimensions by the others. ValueError for axis out of range."""
    if not is_whole(axis) or not 0 <= axis <= len(x.shape):
        raise ValueError(f"flatten: axis {axis} must lie in 0 .. {len(x.shape)}")
    return op("flatten2", {"X": x}, {"axis": axis}, layer="flatten", name=name)


def expand(x: Variable, expand_times: Sizes, name: str | None = None) -> Variable:
    """`x` repeated `expand_times[i]` times along dimension i."""
    helper = LayerHelper("expand", input=x, name=name)
    inputs, attribute = mixed(
        expand_times, "expand", "ExpandTimes", "expand_times_tensor", constant_of(helper)
    )
    return op("expand", {"X": x} | inputs, {"expand_times": attribute}, layer=helper)


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """`x` repeated to the shape of `target_tensor`, whose sizes are multiples of its own."""
    helper = LayerHelper("expand_as", input=x, name=name)
    return op("expand_as", {"X": x, "target_tensor": target_tensor}, layer=helper)


def shape(input: Variable) -> Variable:
    """The sizes of all dimensions, an int32 variable of shape (rank,)."""
    return op("shape", {"Input": input}, dtype=VarType.INT32)


def size(input: Variable) -> Variable:
    """The number of elements, an int64 variable of shape (1,)."""
    return op("size", {"Input": input}, dtype=VarType.INT64)


def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Whether `x` has no element, shape (1,)."""
    return op("is_empty", {"X": [x]}, dtype=VarType.BOOL, stop_gradient=True, out=cond)


def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix transposed; vectors stay as they are. ValueError for more dimensions."""
    if len(input.shape) > 2:
        raise ValueError(f"t takes at most 2 dimensions; {input.name} has {list(input.shape)}")
    if len(input.shape) < 2:
        return input
    return op("transpose2", {"X": [input]}, {"axis": [1, 0]}, layer="t", name=name)
