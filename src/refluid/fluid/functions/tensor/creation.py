"""Constants and variables that layers and users create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.core.whole import is_whole
from refluid.fluid.functions.tensor.tensor_lists import Sizes, free_constant, mixed
from refluid.fluid.initializer import Constant, Initializer
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr, to_attr
from refluid.ir.variable import Parameter, Variable

_WHOLE = (VarType.INT32, VarType.INT64)


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
    """An empty variable of element type `dtype`, to be written by `assign` or `out=`."""
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=as_dtype(dtype), persistable=persistable)


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A parameter of `shape`, for networks written with plain operators.

    `attr` wins over `name`. Raises ValueError for a shape that is empty or not positive.
    """
    helper = LayerHelper("create_parameter")
    attr = ParamAttr(name=name) if attr is None else to_attr(attr)
    parameter: Parameter = helper.create_parameter(
        attr, shape, as_dtype(dtype), is_bias, default_initializer
    )
    return parameter


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the global block that the startup program fills with `value`.

    shape: sizes below 0 aren't known before something else is put into it; it begins with 1 there.
    """
    helper = LayerHelper("global_var")
    var = helper.create_global_variable(
        dtype=as_dtype(dtype),
        shape=[1 if size < 0 else size for size in shape],
        persistable=persistable,
        name=name,
        stop_gradient=True,
    )
    helper.set_variable_initializer(var, Constant(float(value), force_cpu))
    if any(size < 0 for size in shape):
        var.shape = shape
    return var


def _as_text(value: Any, dtype: VarType) -> str:
    return str(int(value)) if dtype in _WHOLE else str(float(value))


def fill_constant(
    shape: Sizes,
    dtype: Any,
    value: float | Variable,
    force_cpu: bool = False,
    out: Variable | None = None,
) -> Variable:
    """A tensor of `shape` whose elements are all `value`.

    shape: ints and variables of shape (1,), or one whole-number variable. value: a number or a
    variable of shape (1,). out: written instead of a new variable.
    """
    helper, kind = LayerHelper("fill_constant"), as_dtype(dtype)
    inputs, sizes = mixed(shape, "fill_constant", "ShapeTensor", "ShapeTensorList", free_constant)
    attrs: dict[str, Any] = {"dtype": int(kind), "shape": sizes, "force_cpu": bool(force_cpu)}
    if isinstance(value, Variable):
        inputs["ValueTensor"] = value
    else:
        attrs |= {"value": float(value), "str_value": _as_text(value, kind)}
    out = op("fill_constant", inputs, attrs, dtype=kind, out=out, layer=helper)
    out.stop_gradient = True
    return out


def fill_constant_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any,
    value: float,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """A constant of `shape`, dimension `output_dim_idx` being `input`'s `input_dim_idx`."""
    kind = as_dtype(dtype)
    attrs = {
        "shape": list(shape),
        "dtype": int(kind),
        "value": float(value),
        "str_value": _as_text(value, kind),
        "input_dim_idx": input_dim_idx,
        "output_dim_idx": output_dim_idx,
        "force_cpu": force_cpu,
    }
    return op(
        "fill_constant_batch_size_like", {"Input": input}, attrs, dtype=kind, stop_gradient=True
    )


def ones(shape: Sizes, dtype: Any, force_cpu: bool = False) -> Variable:
    """A tensor of ones."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape: Sizes, dtype: Any, force_cpu: bool = False) -> Variable:
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu)


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros of the shape and type of `x`."""
    out = op("fill_zeros_like", {"X": x}, out=out, layer="zeros_like")
    out.stop_gradient = True
    return out


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones of the shape and type of `x`."""
    return op("fill_any_like", {"X": x}, {"value": 1.0}, out=out, layer="ones_like")


def full_like(
    input: Variable,
    fill_value: float,
    out: Variable | None = None,
    dtype: Any = None,
    device: Any = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """`fill_value` in the shape of `input`, of its type unless `dtype` says otherwise."""
    kind = input.dtype if dtype is None else as_dtype(dtype)
    attrs = {"value": float(fill_value), "dtype": int(kind)}
    out = op(
        "fill_any_like", {"X": input}, attrs, dtype=kind, out=out, layer="full_like", name=name
    )
    out.stop_gradient = stop_gradient
    return out


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Sequence[int] | None = None,
    dtype: Any = "float32",
) -> Variable:
    """An identity matrix (num_rows, num_columns), repeated to `batch_shape` in front.

    Raises TypeError for sizes that are no ints or negative.
    """
    from refluid.fluid.functions.tensor.joining import stack

    columns = num_rows if num_columns is None else num_columns
    for size in (num_rows, columns, *(batch_shape or ())):
        if not is_whole(size) or size < 0:
            raise TypeError(f"eye: {size!r} should be a non-negative int")
    kind = as_dtype(dtype)
    attrs = {"num_rows": num_rows, "num_columns": columns, "dtype": int(kind)}
    out = op("eye", {}, attrs, dtype=kind, stop_gradient=True)
    for size in reversed(batch_shape or ()):
        out = stack([out] * size, axis=0)
    return out


def _scalar(value: Any, dtype: VarType) -> Variable:
    from refluid.fluid.functions.tensor.assignment import cast

    if not isinstance(value, Variable):
        return fill_constant([1], dtype, value)
    return value if value.dtype == dtype else cast(value, dtype)


def range(
    start: float | Variable, end: float | Variable, step: float | Variable, dtype: Any
) -> Variable:
    """Numbers from `start` up to, not including, `end` in steps of `step`; shape (N,)."""
    kind = as_dtype(dtype)
    inputs = {
        slot: _scalar(value, kind)
        for slot, value in (("Start", start), ("End", end), ("Step", step))
    }
    return op("range", inputs, dtype=kind, stop_gradient=True)


def linspace(
    start: float | Variable, stop: float | Variable, num: int | Variable, dtype: Any
) -> Variable:
    """`num` evenly spaced numbers from `start` to `stop`, both included; shape (num,)."""
    kind = as_dtype(dtype)
    inputs = {
        "Start": start if isinstance(start, Variable) else fill_constant([1], kind, start),
        "Stop": stop if isinstance(stop, Variable) else fill_constant([1], kind, stop),
        "Num": num if isinstance(num, Variable) else fill_constant([1], "int32", num),
    }
    return op("linspace", inputs, dtype=kind, stop_gradient=True)


def diag(diagonal: Variable | np.ndarray[Any, Any]) -> Variable:
    """A square matrix with `diagonal`, shape (N,), on its diagonal and zeros elsewhere."""
    helper = LayerHelper("diag")
    return op("diag", {"Diagonal": helper.to_variable(diagonal)}, layer=helper)


def rank(input: Variable) -> Variable:
    """The number of dimensions of `input`, an int32 constant."""
    from refluid.fluid.functions.tensor.assignment import assign

    return assign(np.array(len(input.shape), "int32"))


def arange(
    start: float | Variable,
    end: float | Variable,
    step: float | Variable = 1,
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """`range` with a default step of 1 and float32 where `dtype` is None."""
    return range(start, end, step, "float32" if dtype is None else dtype)


def full(
    shape: Sizes,
    fill_value: float | Variable,
    out: Variable | None = None,
    dtype: Any = None,
    device: Any = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """`fill_constant`, float32 where `dtype` is None. device: "cpu", "gpu" or None.

    ValueError for another device.
    """
    from refluid.fluid.framework import device_guard

    helper = LayerHelper("full", name=name)
    kind = as_dtype("float32" if dtype is None else dtype)
    if device not in (None, "cpu", "gpu"):
        raise ValueError(f"full: device must be 'cpu', 'gpu' or None, not {device!r}")
    out = helper.create_variable_for_type_inference(kind) if out is None else out
    out.stop_gradient = stop_gradient
    with device_guard(device):
        made = fill_constant(shape, kind, fill_value, out=out)
    made.stop_gradient = stop_gradient
    return made
