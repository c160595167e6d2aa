"""Copies and casts of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.build.constants import assign_value
from refluid.core.dtypes import as_dtype
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
    return assign_value(input, output, helper)


def cast(x: Variable, dtype: Any) -> Variable:
    """`x` with its elements converted to `dtype`."""
    kind = as_dtype(dtype)
    attrs = {"in_dtype": int(x.dtype), "out_dtype": int(kind)}
    return op("cast", {"X": [x]}, attrs, dtype=kind)
