"""Parts of a tensor: slice, strided_slice, gather, reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.whole import is_whole
from refluid.fluid.functions.tensor.tensor_lists import Sizes, constant_of, has_variables, mixed
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

Bounds = dict[str, Sizes]


def _sliced(op_type: str, input: Variable, axes: Sequence[int], bounds: Bounds) -> Variable:
    helper = LayerHelper(op_type)
    inputs: dict[str, Any] = {"Input": input}
    attrs: dict[str, Any] = {"axes": list(axes)}
    known = [1] * len(axes)
    for name, values in bounds.items():
        slot = name.capitalize() + "Tensor"
        found, attribute = mixed(values, op_type, slot, slot + "List", constant_of(helper))
        inputs |= found
        attrs[name] = attribute
        known = [flag & own for flag, own in zip(known, _known(values, len(axes)), strict=False)]
    attrs["infer_flags"] = [flag or -1 for flag in known]
    return op(op_type, inputs, attrs, layer=helper)


def _known(values: Sizes, count: int) -> list[int]:
    """1 for each bound that is a number, 0 for each that a variable holds."""
    if isinstance(values, Variable):
        return [0] * count
    return [int(not has_variables([one])) for one in values]


def slice(input: Variable, axes: Sequence[int], starts: Sizes, ends: Sizes) -> Variable:
    """`input[..., starts[i]:ends[i], ...]` in each dimension of `axes`.

    Negative bounds count from the end. Bounds may be variables, in a list or as one.
    """
    return _sliced("slice", input, axes, {"starts": starts, "ends": ends})


def strided_slice(
    input: Variable, axes: Sequence[int], starts: Sizes, ends: Sizes, strides: Sizes
) -> Variable:
    """As `slice`, taking each `strides[i]`-th element; negative ones go backwards."""
    bounds = {"starts": starts, "ends": ends, "strides": strides}
    return _sliced("strided_slice", input, axes, bounds)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Rows of `input` by number: shape (N, ...) from `index` of shape (N,) or (N, 1).

    overwrite: in the gradient, a row taken twice gets the last gradient instead of the sum.
    """
    attrs = {"overwrite": overwrite}
    return op("gather", {"X": input, "Index": index}, attrs)


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """Elements or slices of `input` at the coordinates in the last dimension of `index`."""
    return op("gather_nd", {"X": input, "Index": index}, name=name)


def scatter(
    input: Variable,
    index: Variable,
    updates: Variable,
    name: str | None = None,
    overwrite: bool = True,
) -> Variable:
    """`input` with rows `index` replaced by `updates`, or their sum put there."""
    inputs = {"X": input, "Ids": index, "Updates": updates}
    return op("scatter", inputs, {"overwrite": overwrite}, name=name)


def reverse(x: Variable, axis: int | Sequence[int]) -> Variable:
    """`x` in reverse order along the dimensions `axis`."""
    axes = [axis] if is_whole(axis) else list(axis)
    return op("reverse", {"X": [x]}, {"axis": axes})
