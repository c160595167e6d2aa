"""Several tensors into one and back: concat, split, stack, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.whole import is_whole
from refluid.fluid.functions.tensor.tensor_lists import (
    Dimension,
    as_attribute,
    as_variables,
    constant_of,
    has_variables,
)
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def concat(
    input: Sequence[Variable] | Variable, axis: int | Variable = 0, name: str | None = None
) -> Variable:
    """Joins tensors along `axis`; all other dimensions must agree."""
    helper = LayerHelper("concat", name=name)
    inputs: dict[str, Any] = {"X": input}
    if isinstance(axis, Variable):
        return op("concat", inputs | {"AxisTensor": axis}, layer=helper)
    return op("concat", inputs, {"axis": axis}, layer=helper)


def split(
    input: Variable,
    num_or_sections: int | Sequence[Dimension],
    dim: int | Variable = -1,
    name: str | None = None,
) -> list[Variable]:
    """Splits along `dim`: into so many equal parts, or into parts of the given sizes.

    One size may be -1, or variables of shape (1,). Raises ValueError where an equal split
    isn't possible, TypeError for other arguments.
    """
    helper = LayerHelper("split", name=name)
    inputs: dict[str, Any] = {"X": input}
    attrs: dict[str, Any] = {"axis": None, "num": 0}
    if isinstance(dim, Variable):
        inputs["AxisTensor"] = dim
    else:
        attrs["axis"] = dim = dim + len(input.shape) if dim < 0 else dim
    if is_whole(num_or_sections):
        _require_equal_parts(input, num_or_sections, dim)
        attrs["num"] = count = num_or_sections
    elif isinstance(num_or_sections, list | tuple):
        count = len(num_or_sections)
        attrs["sections"] = as_attribute(num_or_sections, "split")
        if has_variables(num_or_sections):
            sections = as_variables(num_or_sections, constant_of(helper))
            inputs["SectionsTensorList"] = sections
    else:
        raise TypeError(f"split: num_or_sections is an int, list or tuple: {num_or_sections!r}")
    return op("split", inputs, attrs, {"Out": [input.dtype] * count}, layer=helper)[0]


def _require_equal_parts(var: Variable, count: int, dim: int | Variable) -> None:
    if count < 1:
        raise ValueError(f"split: the number of parts must be positive, not {count}")
    if isinstance(dim, Variable) or var.shape[dim] < 0 or var.shape[dim] % count == 0:
        return
    raise ValueError(
        f"split: dimension {dim} of {var.name}, size {var.shape[dim]}, can't be split into "
        f"{count} equal parts"
    )


def stack(x: Sequence[Variable] | Variable, axis: int = 0) -> Variable:
    """Joins tensors of equal shape along a new dimension `axis`."""
    return op("stack", {"X": x}, {"axis": axis})


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices along `axis`, without that dimension.

    `num` is their number where the size isn't known; ValueError where it is needed.
    """
    num = x.shape[axis] if num is None else num
    if num < 1:
        raise ValueError(f"unstack: dimension {axis} of {x.name} is unknown; give num")
    return op("unstack", {"X": x}, {"axis": axis, "num": num}, {"Y": [x.dtype] * num})[0]
