"""`variable[item]` as one `slice`, `strided_slice` or `reverse` operator.

Supported as in Fluid 1.8: integers, slices, `...` and tuples of them; integers and bounds may be
whole-number variables of shape (1,). An integer removes its dimension; a result of no dimension
keeps shape (1,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refluid.build.operators import op
from refluid.build.results import How
from refluid.core.dtypes import VarType
from refluid.core.whole import is_whole
from refluid.ir.block import Block
from refluid.ir.variable import Variable

_END = 10000000
SliceBound = Any  # an int or a Variable


@dataclass(frozen=True)
class Taken:
    """What an index takes of one dimension; drop: the dimension goes."""

    axis: int
    start: SliceBound
    end: SliceBound
    step: SliceBound
    drop: bool

    @property
    def whole(self) -> bool:
        """Whether it takes everything."""
        bounds = (self.start, self.end, self.step)
        return all(is_whole(one) for one in bounds) and bounds == (0, _END, 1)

    @property
    def reversed(self) -> bool:
        """Whether it takes everything, last element first."""
        bounds = (self.start, self.end, self.step)
        return all(is_whole(one) for one in bounds) and bounds == (_END, -_END, -1)


def _expand(item: Any, rank: int, name: str) -> list[Any]:
    """One index per dimension from the left, `...` written out."""
    items = list(item) if isinstance(item, tuple) else [item]
    positions = [position for position, one in enumerate(items) if one is Ellipsis]
    if len(positions) > 1:
        raise IndexError(f"variable {name!r}: an index may hold one `...` only")
    if positions:
        missing = rank - (len(items) - 1)
        items[positions[0] : positions[0] + 1] = [slice(None)] * missing
    if len(items) > rank:
        raise IndexError(f"variable {name!r} has {rank} dimensions, the index has {len(items)}")
    return items


def _bound(value: Any, default: int) -> SliceBound:
    if value is None:
        return default
    return value if isinstance(value, Variable) else int(value)


def _part(axis: int, one: Any, name: str) -> Taken:
    if isinstance(one, slice):
        step = _bound(one.step, 1)
        if is_whole(step) and step == 0:
            raise ValueError(f"variable {name!r}: slice step can't be zero")
        back = is_whole(step) and step < 0
        start = _bound(one.start, _END if back else 0)
        return Taken(axis, start, _bound(one.stop, -_END if back else _END), step, False)
    if isinstance(one, Variable):
        return Taken(axis, one, _after(one), 1, True)
    if is_whole(one) and not isinstance(one, bool):
        return Taken(axis, one, _END if one == -1 else one + 1, 1, True)
    raise TypeError(
        f"variable {name!r}: index {one!r} is not supported in a program; use integers and "
        "slices, or fluid.layers.gather"
    )


def subscript(var: Variable, item: Any) -> Variable:
    """Appends what computes `var[item]`; the result variable, `var` itself for all of it."""
    indices = _expand(item, len(var.shape), var.name)
    parts = [_part(axis, one, var.name) for axis, one in enumerate(indices)]
    parts = [part for part in parts if not part.whole]
    if not parts:
        return var
    if len(parts) == 1 and parts[0].reversed:
        return _reversed(var, parts[0].axis)
    strided = any(not isinstance(part.step, int) or part.step != 1 for part in parts)
    bounds = {"starts": [part.start for part in parts], "ends": [part.end for part in parts]}
    bounds |= {"strides": [part.step for part in parts]} if strided else {}
    inputs: dict[str, Any] = {"Input": [var]}
    attrs: dict[str, Any] = {
        "axes": [part.axis for part in parts],
        "decrease_axis": [part.axis for part in parts if part.drop],
    }
    for name, values in bounds.items():
        attrs[name] = [-1 if isinstance(one, Variable) else one for one in values]
        if any(isinstance(one, Variable) for one in values):
            inputs[f"{name.capitalize()}TensorList"] = [_as_variable(var, one) for one in values]
    attrs["infer_flags"] = [
        -1 if any(isinstance(one, Variable) for one in (part.start, part.end, part.step)) else 1
        for part in parts
    ]
    kind = "strided_slice" if strided else "slice"
    return op(kind, inputs, attrs, prefix=f"{var.name}_slice", block=block_of(var))


def block_of(var: Variable) -> Block | None:
    """Where operators on a variable go: the current block of its program."""
    return None if var.block is None else var.block.program.current_block()


def _reversed(var: Variable, axis: int) -> Variable:
    prefix = f"{var.name}_slice_reverse"
    return op("reverse", {"X": [var]}, {"axis": [axis]}, prefix=prefix, block=block_of(var))


def _as_variable(var: Variable, bound: SliceBound) -> Variable:
    """A bound as a variable: a number becomes an int32 constant."""
    return bound if isinstance(bound, Variable) else _number(var, bound)


def _after(index: Variable) -> Variable:
    """The bound that follows an index; int32, as in Fluid, unless the index is int64."""
    kind = VarType.INT64 if index.dtype == VarType.INT64 else VarType.INT32
    inputs = {"X": [index], "Y": [_number(index, 1, kind)]}
    return op("elementwise_add", inputs, {"axis": -1}, prefix="tmp", block=block_of(index))


def _number(var: Variable, bound: int, kind: VarType = VarType.INT32) -> Variable:
    """A constant of the current block."""
    attrs = {"shape": [1], "dtype": int(kind), "value": float(bound), "force_cpu": True}
    how: How = {"prefix": "tmp", "dtype": kind, "stop_gradient": True, "block": block_of(var)}
    return op("fill_constant", None, attrs, **how)
