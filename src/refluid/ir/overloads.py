"""Python operators on variables: `a + b`, `a[0:2]`, `a < b` append operators to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from refluid.core import names
from refluid.core.dtypes import FLOATING, VarType, as_dtype
from refluid.ir.subscript import append_subscript

if TYPE_CHECKING:
    from collections.abc import Callable

    from refluid.ir.block import Block
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


def _new(block: Block, dtype: VarType) -> Variable:
    return block.create_var(name=names.generate("tmp"), dtype=dtype)


def _cast(var: Variable, dtype: VarType) -> Variable:
    block = _block(var)
    out = _new(block, dtype)
    block.append_op(
        type="cast",
        inputs={"X": [var]},
        outputs={"Out": [out]},
        attrs={"in_dtype": int(var.dtype), "out_dtype": int(dtype)},
    )
    return out


def _scale(var: Variable, scale: float, bias: float) -> Variable:
    block = _block(var)
    out = _new(block, var.dtype)
    block.append_op(
        type="scale",
        inputs={"X": [var]},
        outputs={"Out": [out]},
        attrs={"scale": float(scale), "bias": float(bias)},
    )
    return out


def _constant(like: Variable, value: float) -> Variable:
    block = _block(like)
    out = _new(block, like.dtype)
    block.append_op(
        type="fill_constant",
        outputs={"Out": [out]},
        attrs={"dtype": int(like.dtype), "shape": [1], "value": float(value), "force_cpu": False},
    )
    out.stop_gradient = True
    return out


def _block(var: Variable) -> Block:
    return var.block.program.current_block()


def _binary(var: Any, other: Any, op_type: str, *, reverse: bool = False) -> Any:
    """Appends `op_type` of a variable and a variable or Python number; the result variable."""
    if isinstance(other, _SCALAR):
        other = float(other) if isinstance(other, float | np.floating) else int(other)
        whole = var.dtype not in FLOATING
        if whole and (isinstance(other, float) or op_type == "elementwise_div"):
            var = _cast(var, VarType.FP32)
        rule = _SCALE.get(
            "elementwise_rsub" if op_type == "elementwise_sub" and reverse else op_type
        )
        if rule and not (reverse and op_type == "elementwise_div"):
            return _scale(var, *rule(other))
        other = _constant(var, other)
    elif not hasattr(other, "block"):
        raise TypeError(
            f"variable {var.name!r} can't be combined with {type(other).__name__}; "
            "use a variable or a Python number"
        )
    left, right = (other, var) if reverse else (var, other)
    if left.dtype != right.dtype:
        right = _cast(right, left.dtype)
    axis = 0 if right.shape[:1] == (-1,) else -1
    block = _block(var)
    out = _new(block, VarType.BOOL if op_type in _COMPARE else left.dtype)
    block.append_op(
        type=op_type,
        inputs={"X": [left], "Y": [right]},
        outputs={"Out": [out]},
        attrs={"axis": axis},
    )
    return out


class Overloads:
    """Mix-in of `Variable` with Python's operators."""

    __hash__ = object.__hash__

    def astype(self: Any, dtype: Any) -> Any:
        """This variable cast to another element type."""
        return _cast(self, as_dtype(dtype))

    def __neg__(self: Any) -> Any:
        return _scale(self, -1.0, 0.0)

    def __add__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_add")

    def __radd__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_add")

    def __sub__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_sub")

    def __rsub__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_sub", reverse=True)

    def __mul__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_mul")

    def __rmul__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_mul")

    def __truediv__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_div")

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_div", reverse=True)

    __div__, __rdiv__ = __truediv__, __rtruediv__

    def __pow__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_pow")

    def __rpow__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_pow", reverse=True)

    def __floordiv__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_floordiv")

    def __mod__(self, other: Any) -> Any:
        return _binary(self, other, "elementwise_mod")

    def __eq__(self, other: Any) -> Any:
        return _binary(self, other, "equal")

    def __ne__(self, other: Any) -> Any:
        return _binary(self, other, "not_equal")

    def __lt__(self, other: Any) -> Any:
        return _binary(self, other, "less_than")

    def __le__(self, other: Any) -> Any:
        return _binary(self, other, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return _binary(self, other, "greater_than")

    def __ge__(self, other: Any) -> Any:
        return _binary(self, other, "greater_equal")

    def __getitem__(self: Any, item: Any) -> Any:
        return append_subscript(self, item)
