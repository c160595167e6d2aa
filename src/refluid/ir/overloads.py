"""Python operators on variables: `a + b`, `a[0:2]`, `a < b` append operators to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from refluid.core import names
from refluid.core.dtypes import FLOATING, VarType, as_dtype, dtype_name
from refluid.ir.subscript import append_subscript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def _constant(like: Variable, value: float, shape: Sequence[int] = (1,)) -> Variable:
    """A constant of `shape`, which may have an unknown size: that of `like`.

    One of unknown size holds float32 whatever is declared: Fluid gives its operator no type.
    """
    block = _block(like)
    out = _new(block, like.dtype)
    out.stop_gradient = True
    attrs: dict[str, Any] = {"shape": list(shape), "value": float(value)}
    if -1 in shape:
        unknown = list(shape).index(-1)
        attrs |= {"input_dim_idx": unknown, "output_dim_idx": unknown}
        sized, inputs = "fill_constant_batch_size_like", {"Input": [like]}
        block.append_op(type=sized, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
        out.describe(shape=out.shape, dtype=like.dtype)
        return out
    attrs |= {"dtype": int(like.dtype), "force_cpu": False}
    block.append_op(type="fill_constant", outputs={"Out": [out]}, attrs=attrs)
    return out


def _block(var: Variable) -> Block:
    return var.block.program.current_block()


def _scalar(
    var: Variable, other: Any, op_type: str, *, reverse: bool
) -> tuple[Variable | None, Variable | None]:
    """A number as a constant and None, or None and the result where one `scale` will do.

    The constant is of the variable's type: of 1.5 a whole-number variable sees 1.
    """
    value = float(other) if isinstance(other, float | np.floating) else int(other)
    whole = var.dtype not in FLOATING
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
    return None, _scale(var, *rule(value))


def _binary(var: Any, other: Any, op_type: str, *, reverse: bool = False) -> Any:
    """Appends `op_type` of a variable and a variable or Python number; the result variable."""
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
