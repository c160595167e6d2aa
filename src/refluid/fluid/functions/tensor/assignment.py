"""Copies and casts of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.tensor.constants import value_attributes
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def assign(input: Variable | np.ndarray[Any, Any], output: Variable | None = None) -> Variable:
    """Copies a variable, or puts an array into the program; into `output` if given.

    float64 arrays become float32. TypeError for other inputs and for arrays that a program
    can't hold.
    """
    helper = LayerHelper("assign")
    if isinstance(input, Variable):
        return op("assign", {"X": [input]}, out=output, layer=helper)
    if not isinstance(input, np.ndarray):
        raise TypeError(f"assign takes a Variable or a numpy array, not {type(input).__name__}")
    attrs = value_attributes(input, as_dtype(input.dtype)) | {"shape": list(input.shape)}
    return op("assign_value", {}, attrs, dtype=VarType(attrs["dtype"]), out=output, layer=helper)


def cast(x: Variable, dtype: Any) -> Variable:
    """`x` with its elements converted to `dtype`."""
    kind = as_dtype(dtype)
    attrs = {"in_dtype": int(x.dtype), "out_dtype": int(kind)}
    return op("cast", {"X": [x]}, attrs, dtype=kind)
