"""What `a + b`, `a < b` and the like append to the program of a variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refluid.build.backend import backend
from refluid.build.constants import assign_value
from refluid.build.operators import op
from refluid.build.results import How
from refluid.build.subscript import block_of
from refluid.build.subscript import subscript as subscript
from refluid.core.dtypes import COMPLEX, DIFFERENTIABLE, FLOATING, VarType, dtype_name
from refluid.ir.variable import Variable

_SCALAR = (bool, int, float, np.integer, np.floating)
_SCALE: dict[str, Callable[[float], tuple[float, float]]] = {
    "elementwise_add": lambda value: (1.0, value),
    "elementwise_sub": lambda value: (1.0, -value),
    "elementwise_rsub": lambda value: (-1.0, value),
    "elementwise_mul": lambda value: (value, 0.0),
    "elementwise_div": lambda value: (1.0 / value, 0.0),
}
_COMPARE = {"equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"}


def cast(var: Variable, dtype: VarType) -> Variable:
    """The variable cast to another element type."""
    attrs = {"in_dtype": int(var.dtype), "out_dtype": int(dtype)}
    return op("cast", {"X": [var]}, attrs, prefix="tmp", dtype=dtype, block=block_of(var))


def scale(var: Variable, scale: float, bias: float) -> Variable:
    """`var * scale + bias`."""
    attrs = {"scale": float(scale), "bias": float(bias)}
    return op("scale", {"X": [var]}, attrs, prefix="tmp", block=block_of(var))


def _constant(like: Variable, value: float, shape: Sequence[int] = (1,)) -> Variable:
    """A constant of `shape`, which may have unknown sizes: those of `like`.

    One with an unknown size holds float32 whatever is declared: Fluid gives its operator no type.
    """
    block, dtype = block_of(like), like.dtype
    how: How = {"prefix": "tmp", "dtype": dtype, "stop_gradient": True, "block": block}
    attrs: dict[str, Any] = {"shape": list(shape), "value": float(value)}
    if list(shape).count(-1) > 1:
        attrs = {"value": float(value), "dtype": int(dtype)}
        return op("fill_any_like", {"X": [like]}, attrs, **how)
    if -1 in shape:
        unknown = list(shape).index(-1)
        attrs |= {"input_dim_idx": unknown, "output_dim_idx": unknown}
        out = op("fill_constant_batch_size_like", {"Input": [like]}, attrs, **how)
        out.describe(shape=out.shape, dtype=dtype)
        return out
    return op("fill_constant", None, attrs | {"dtype": int(dtype), "force_cpu": False}, **how)


def _scalar(
    var: Variable, other: Any, op_type: str, *, reverse: bool
) -> tuple[Variable | None, Variable | None]:
    """A number as a constant and None, or None and the result where one `scale` will do.

    The constant is of the variable's type: of 1.5 a whole-number variable sees 1.
    """
    value = float(other) if isinstance(other, float | np.floating) else int(other)
    whole = var.dtype not in DIFFERENTIABLE
    if op_type == "elementwise_sub" and reverse:
        op_type = "elementwise_rsub"
    rule = None if op_type == "elementwise_div" and (reverse or whole) else _SCALE.get(op_type)
    if rule is None:
        return _constant(var, value, var.shape if reverse else (1,)), None
    if whole and value != int(value):
        raise AssertionError(
            f"float value {value} cannot convert to integer: variable {var.name!r} is "
            f"{dtype_name(var.dtype)}; cast it to float32 first"
        )
    return None, scale(var, *rule(value))


def _promoted(var: Any, other: Any, op_type: str) -> tuple[Any, Any]:
    """Whole numbers as float32 beside a fraction and in quotients, as in Paddle 2."""
    whole = var.dtype not in DIFFERENTIABLE
    fraction = isinstance(other, float | np.floating)
    if op_type in _COMPARE or not whole:
        return var, other
    others = isinstance(other, Variable) and other.dtype not in FLOATING
    divides = op_type == "elementwise_div" and (others or isinstance(other, _SCALAR))
    if fraction or divides:
        return cast(var, VarType.FP32), cast(other, VarType.FP32) if others else other
    return var, other


def both_complex(var: Any, other: Any) -> tuple[Any, Any]:
    """Real numbers as complex ones beside such."""
    if isinstance(other, complex):
        other = assign_value(np.array([other], "complex64"))
    kinds = {one.dtype for one in (var, other) if isinstance(one, Variable)}
    if kinds.isdisjoint(COMPLEX):
        return var, other
    wide = not kinds.isdisjoint({VarType.COMPLEX128, VarType.FP64})
    kind = VarType.COMPLEX128 if wide else VarType.COMPLEX64
    made = [
        cast(one, kind) if isinstance(one, Variable) and one.dtype != kind else one
        for one in (var, other)
    ]
    return made[0], made[1]


def binary(var: Any, other: Any, op_type: str, *, reverse: bool = False) -> Any:
    """Appends `op_type` of a variable and a variable or Python number; the result variable."""
    if isinstance(other, np.ndarray) and hasattr(var, "alike"):
        other = var.alike(other)
    var, other = both_complex(var, other)
    if getattr(backend(), "promotes", False):
        var, other = _promoted(var, other, op_type)
        if op_type == "elementwise_floordiv" and var.dtype in FLOATING:
            made = binary(var, other, "elementwise_div", reverse=reverse)
            return op("floor", {"X": [made]}, block=block_of(made))
    if isinstance(other, _SCALAR):
        other, scaled = _scalar(var, other, op_type, reverse=reverse)
        if scaled is not None:
            return scaled
    elif not hasattr(other, "block"):
        raise TypeError(
            f"variable {var.name!r} can't be combined with {type(other).__name__}; "
            "use a variable or a Python number"
        )
    left, right = (other, var) if reverse else (var, other)
    if left.dtype != right.dtype:
        right = cast(right, left.dtype)
    kind = VarType.BOOL if op_type in _COMPARE else left.dtype
    inputs, attrs = {"X": [left], "Y": [right]}, {"axis": 0 if right.shape[:1] == (-1,) else -1}
    return op(op_type, inputs, attrs, prefix="tmp", dtype=kind, block=block_of(var))
