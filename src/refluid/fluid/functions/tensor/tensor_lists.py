"""Lists of sizes that mix Python numbers and variables, as attribute and as operator inputs.

An operator that takes such a list has it twice: as attribute, with -1 where a variable stands,
and, if there is any variable, as a slot of one variable per entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

Dimension = int | Variable
Sizes = Sequence[Dimension] | Variable
MakeConstant = Callable[[int], Variable]


def has_variables(values: Sequence[Dimension]) -> bool:
    """Whether any entry is a variable."""
    return any(isinstance(one, Variable) for one in values)


def as_attribute(values: Sequence[Dimension], where: str) -> list[int]:
    """The list with -1 for each variable. TypeError for entries that are no whole numbers."""
    for one in values:
        if not isinstance(one, Variable | int | np.integer) or isinstance(one, bool):
            raise TypeError(f"{where}: {one!r} in {values!r} is neither an int nor a Variable")
    return [-1 if isinstance(one, Variable) else int(one) for one in values]


def as_variables(values: Sequence[Dimension], make: MakeConstant) -> list[Variable]:
    """The list as variables, numbers turned into constants by `make`."""
    return [_detached(one) if isinstance(one, Variable) else make(int(one)) for one in values]


def constant_of(helper: LayerHelper) -> MakeConstant:
    """Makes int32 constants that belong to the layer `helper` is for."""

    def make(value: int) -> Variable:
        return _constant(value, helper.create_variable_for_type_inference(VarType.INT32))

    return make


def free_constant(value: int) -> Variable:
    """An int32 constant of its own."""
    return _constant(value, None)


def _constant(value: int, out: Variable | None) -> Variable:
    attrs = {"dtype": int(VarType.INT32), "shape": [1], "force_cpu": True}
    attrs |= {"value": float(value), "str_value": str(value)}
    layer = LayerHelper("fill_constant")
    made = op("fill_constant", {}, attrs, dtype=VarType.INT32, out=out, layer=layer)
    made.stop_gradient = True
    return made


def mixed(
    values: Sizes, where: str, whole: str, each: str, make: MakeConstant
) -> tuple[dict[str, Any], list[int] | None]:
    """(input slots, attribute or None) for a list of sizes.

    whole: slot for a variable that holds the entire list; each: slot for a list of variables.
    """
    if isinstance(values, Variable):
        return {whole: _detached(values)}, None
    attribute = as_attribute(list(values), where)
    if not has_variables(list(values)):
        return {}, attribute
    return {each: as_variables(list(values), make)}, attribute


def _detached(var: Variable) -> Variable:
    var.stop_gradient = True
    return var
