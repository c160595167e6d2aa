"""Padding: pad, pad2d, pad_constant_like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def pad(
    x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """`pad_value` around `x`: two numbers, before and after, per dimension."""
    attrs = {"paddings": paddings, "pad_value": float(pad_value)}
    return LayerHelper("pad", name=name).emit("pad", {"X": x}, attrs)


def pad_constant_like(
    x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """`y` with `pad_value` behind it in every dimension, up to the shape of `x`."""
    helper = LayerHelper("pad_constant_like", name=name)
    attrs = {"pad_value": float(pad_value)}
    return helper.emit("pad_constant_like", {"X": x, "Y": y}, attrs, dtype=y.dtype)


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
    helper = LayerHelper("pad2d", name=name)
    inputs: dict[str, Any] = {"X": input}
    attrs = {"mode": mode, "pad_value": pad_value, "data_format": data_format}
    if isinstance(paddings, Variable):
        inputs["Paddings"] = paddings
        attrs["paddings"] = [0, 0, 0, 0]
    else:
        attrs["paddings"] = list(paddings)
    return helper.emit("pad2d", inputs, attrs)
