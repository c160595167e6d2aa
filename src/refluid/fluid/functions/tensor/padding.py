"""Tensors made larger or smaller at their edges: pad, pad2d, pad_constant_like, crop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.tensor.tensor_lists import Sizes, constant_of, mixed
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def pad(
    x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """`pad_value` around `x`: two numbers, before and after, per dimension."""
    attrs = {"paddings": paddings, "pad_value": float(pad_value)}
    return op("pad", {"X": x}, attrs, name=name)


def pad_constant_like(
    x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """`y` with `pad_value` after it in every dimension, up to the shape of `x`."""
    attrs = {"pad_value": float(pad_value)}
    return op("pad_constant_like", {"X": x, "Y": y}, attrs, dtype=y.dtype, name=name)


def pad2d(
    input: Variable,
    paddings: Sequence[int] | Variable = [0, 0, 0, 0],  # noqa: B006
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Pads height and width: top, bottom, left, right, as numbers or an int32 variable of four.

    mode: "constant" puts `pad_value`, "reflect" mirrors, "edge" repeats the border.
    """
    inputs: dict[str, Any] = {"X": input}
    attrs = {"mode": mode, "pad_value": pad_value, "data_format": data_format}
    if isinstance(paddings, Variable):
        inputs["Paddings"] = paddings
        attrs["paddings"] = [0, 0, 0, 0]
    else:
        attrs["paddings"] = list(paddings)
    return op("pad2d", inputs, attrs, name=name)


def crop(
    x: Variable,
    shape: Sequence[int] | Variable | None = None,
    offsets: Sequence[int] | Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The part of `x` of `shape` (or of that variable's shape) that begins at `offsets` (0).

    ValueError for a shape that is neither a list nor a variable.
    """
    if not isinstance(shape, list | tuple | Variable):
        raise ValueError("crop: The shape should be a list, tuple or Variable.")
    inputs: dict[str, Any] = {"X": x}
    attrs: dict[str, Any] = {}
    if isinstance(shape, Variable):
        inputs["Y"] = shape
    else:
        attrs["shape"] = list(shape)
    if isinstance(offsets, Variable):
        inputs["Offsets"] = offsets
    else:
        attrs["offsets"] = [0] * len(x.shape) if offsets is None else list(offsets)
    return op("crop", inputs, attrs, name=name)


def crop_tensor(
    x: Variable,
    shape: Sizes | None = None,
    offsets: Sizes | None = None,
    name: str | None = None,
) -> Variable:
    """The part of `x` of `shape` (-1: all that is left) that begins at `offsets` (0).

    Entries may be variables of shape (1,), or all of it one int32 variable. TypeError for a
    shape or offsets that are neither.
    """
    helper = LayerHelper("crop_tensor", name=name)
    for what, values in (("shape", shape), ("offsets", offsets)):
        if not isinstance(values, list | tuple | Variable | None):
            raise TypeError(f"crop_tensor: {what} must be a list, a tuple or a Variable")
    out = helper.create_variable_for_type_inference(x.dtype)
    make = constant_of(helper)
    starts = [0] * len(x.shape) if offsets is None else offsets
    inputs, first = mixed(starts, "crop_tensor", "Offsets", "OffsetsTensor", make)
    sizes = list(x.shape) if shape is None else shape
    more, known = mixed(sizes, "crop_tensor", "Shape", "ShapeTensor", make)
    if more and known is not None:
        entries: Sequence[Any] = sizes  # type: ignore[assignment]
        known = [0 if isinstance(one, Variable) else one for one in entries]
    attrs = {"offsets": [-1] * len(x.shape) if first is None else first, "shape": known}
    return op("crop_tensor", {"X": x} | inputs | more, attrs, out=out, layer=helper)
