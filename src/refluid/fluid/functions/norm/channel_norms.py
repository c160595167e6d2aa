"""Channels scaled and shifted, and normalised by their neighbours."""

from __future__ import annotations

from refluid.build import op
from refluid.fluid.functions.norm.normalization import channels_of
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def affine_channel(
    x: Variable,
    scale: Variable | None = None,
    bias: Variable | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Variable:
    """scale * x + bias with a scale and a bias, both (C,), for each channel of (N, C, H, W)."""
    helper = LayerHelper("affine_channel", name=name, act=act)
    inputs = {"X": x, "Scale": scale, "Bias": bias}
    out = op("affine_channel", inputs, {"data_layout": data_layout}, layer=helper)
    return helper.append_activation(out)


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Local response normalisation over `n` neighbouring channels of (N, C, H, W).

    ValueError for an input of other than four dimensions or an unknown layout.
    """
    if len(input.shape) != 4:
        raise ValueError(f"lrn takes 4 dimensions; {input.name} has shape {list(input.shape)}")
    channels_of(input, data_format)
    attrs = {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format}
    makes = ("MidOut", "Out")
    return op("lrn", {"X": input}, attrs, makes, stop_gradient=("MidOut",), name=name)[1]
