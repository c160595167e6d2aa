"""Layers that give sequences to rows, make them of images, and look ahead in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.whole import elements, is_whole
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def lod_reset(
    x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None
) -> Variable:
    """`x` in the sequences of `y`, or those that y's int32 data or `target_lod` say.

    Both are offsets `[0, 4, 6]`, or lengths `[4, 2]`. ValueError without either.
    """
    if y is None and target_lod is None:
        raise ValueError("y and target_lod should not be both none.")
    return _with_level("lod_reset", x, y if y is not None else target_lod, {})


def lod_append(x: Variable, level: Sequence[int] | Variable) -> Variable:
    """`x` with one more level below those that it has; `level` as y or target_lod of `lod_reset`.

    ValueError for a level of another type.
    """
    if not isinstance(level, Variable | Sequence):
        raise ValueError("Input(level) must be list, tuple or Variable.")
    return _with_level("lod_append", x, level, {"append": True})


def _with_level(name: str, x: Variable, level: Any, attrs: dict[str, Any]) -> Variable:
    inputs = {"X": x}
    if isinstance(level, Variable):
        inputs["Y"] = level
    else:
        attrs["target_lod"] = list(level)
    return op("lod_reset", inputs, attrs, layer=name)


def _pair(size: int | Sequence[int], what: str) -> list[int]:
    return [size, size] if is_whole(size) else elements(size, f"im2sequence: {what}")


def im2sequence(
    input: Variable,
    filter_size: int | Sequence[int] = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    input_image_size: Variable | None = None,
    out_stride: int | Sequence[int] = 1,
    name: str | None = None,
) -> Variable:
    """Each image (N, C, H, W) as the sequence of its windows, rows of C * filter elements.

    padding: one, (height, width), or (up, left, down, right). input_image_size: (N, 2), the
    images' heights and widths before they were scaled down by `out_stride`; windows beyond them
    are left out.
    """
    pads = _pair(padding, "padding")
    inputs = {"X": input}
    attrs = {
        "kernels": _pair(filter_size, "filter_size"),
        "strides": _pair(stride, "stride"),
        "paddings": pads * 2 if len(pads) == 2 else pads,
    }
    if input_image_size is not None:
        inputs["Y"] = input_image_size
        attrs["out_stride"] = _pair(out_stride, "out_stride")
    return op("im2sequence", inputs, attrs, name=name)


def row_conv(
    input: Variable, future_context_size: int, param_attr: Any = None, act: str | None = None
) -> Variable:
    """Each row plus the `future_context_size` after it in its sequence, weighted per column.

    input: (n, width) with sequences, or (batch, time, width).
    """
    helper = LayerHelper("row_conv", param_attr=param_attr, act=act)
    size = [future_context_size + 1, input.shape[-1]]
    filters = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=input.dtype)
    out = op("row_conv", {"X": [input], "Filter": [filters]}, layer=helper)
    return helper.append_activation(out)
