"""`variable[item]` as `slice`, `strided_slice` and `reshape2` operators.

Supported as in Fluid 1.8: integers, slices, `...` and tuples of them. An integer removes its
dimension; a result of no dimension keeps shape (1,).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refluid.core import names

if TYPE_CHECKING:
    from refluid.ir.variable import Variable

_END = 10000000


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


def _bounds(one: Any, name: str) -> tuple[int, int, int, bool]:
    """(start, end, step, whether the dimension goes) of one index."""
    if isinstance(one, slice):
        step = 1 if one.step is None else int(one.step)
        if step == 0:
            raise ValueError(f"variable {name!r}: slice step can't be zero")
        start = (0 if step > 0 else _END) if one.start is None else int(one.start)
        end = (_END if step > 0 else -_END) if one.stop is None else int(one.stop)
        return start, end, step, False
    if isinstance(one, int) and not isinstance(one, bool):
        return one, _END if one == -1 else one + 1, 1, True
    raise TypeError(
        f"variable {name!r}: index {one!r} is not supported in a program; use integers and "
        "slices, or fluid.layers.gather"
    )


def append_subscript(var: Variable, item: Any) -> Variable:
    """Appends what computes `var[item]`; the result variable."""
    indices = _expand(item, len(var.shape), var.name)
    axes: list[int] = []
    bounds: list[tuple[int, int, int]] = []
    gone: list[int] = []
    for axis, one in enumerate(indices):
        start, end, step, drop = _bounds(one, var.name)
        if (start, end, step) == (0, _END, 1) and not drop:
            continue
        axes.append(axis)
        bounds.append((start, end, step))
        gone += [axis] if drop else []
    strided = any(step != 1 for _, _, step in bounds)
    attrs: dict[str, Any] = {
        "axes": axes,
        "starts": [start for start, _, _ in bounds],
        "ends": [end for _, end, _ in bounds],
    }
    attrs["infer_flags"] = [1] * len(axes)
    attrs |= {"strides": [step for _, _, step in bounds]} if strided else {"decrease_axis": gone}
    out = _append(var, "strided_slice" if strided else "slice", "Input", attrs)
    return _squeeze(out, gone) if strided and gone else out


def _squeeze(var: Variable, gone: list[int]) -> Variable:
    kept = [size for axis, size in enumerate(var.shape) if axis not in gone] or [1]
    return _append(var, "reshape2", "X", {"shape": kept}, "XShape")


def _append(var: Variable, op_type: str, slot: str, attrs: dict[str, Any], *extra: str) -> Variable:
    block = var.block.program.current_block()
    made = {
        name: [block.create_var(name=names.generate(f"{var.name}_slice"), dtype=var.dtype)]
        for name in ("Out", *extra)
    }
    block.append_op(type=op_type, inputs={slot: [var]}, outputs=made, attrs=attrs)
    return made["Out"][0]
