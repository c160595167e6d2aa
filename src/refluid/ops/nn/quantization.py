"""Quantisation as it is simulated in training: whole numbers, kept as floats, and their scales.

The scale of a tensor is the greatest magnitude that its whole numbers stand for. Numbers beyond
the scale become the greatest whole number, halves are rounded away from zero, and all is zero
where the scale is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.ir.checks import between
from refluid.ops.registry import operator

_Bits = Annotated[int, between(1, 16)]
_AVERAGED = "Out OutScale OutState? OutAccum?"


def greatest(bits: int) -> int:
    """The greatest whole number of so many bits, one of them the sign: 127 for 8."""
    return int(2 ** (bits - 1) - 1)


def quantized(x: Tensor, scale: Tensor, bits: int) -> Tensor:
    """The whole numbers that stand for x, in x's type. scale: of a shape that broadcasts to x."""
    highest = greatest(bits)
    ratio = (x / scale).clamp(-1, 1) * highest
    rounded = torch.copysign(ratio.abs().add_(0.5).floor_(), ratio)  # `trunc` takes 60 times that
    return torch.where(scale == 0, torch.zeros_like(rounded), rounded)


def _magnitude(x: Tensor) -> Tensor:
    return x.abs().amax().reshape(1)


def _by_channel(scale: Tensor, x: Tensor, axis: int = 0) -> Tensor:
    shape = [1] * x.dim()
    shape[axis] = -1
    return scale.reshape(shape)


@operator("fake_quantize_abs_max", outputs="Out OutScale", uses=None, without_lod="OutScale")
def fake_quantize_abs_max(X: Tensor, *, bit_length: _Bits = 8) -> tuple[Tensor, Tensor]:
    """X as whole numbers, by its own greatest magnitude."""
    scale = _magnitude(X)
    return quantized(X, scale, bit_length), scale


@operator("fake_channel_wise_quantize_abs_max", outputs="Out OutScale", uses=None, lod="")
def fake_channel_wise_quantize_abs_max(
    X: Tensor, *, bit_length: _Bits = 8
) -> tuple[Tensor, Tensor]:
    """X as whole numbers, by the greatest magnitude of each channel (the first dimension)."""
    scale = X.abs().flatten(1).amax(1) if X.dim() > 1 else X.abs()
    return quantized(X, _by_channel(scale, X), bit_length), scale


@operator(
    "fake_quantize_range_abs_max",
    outputs="Out OutScale OutScales?",
    uses=None,
    untouched="OutScales",
    without_lod="OutScale OutScales",
)
def fake_quantize_range_abs_max(
    X: Tensor,
    InScale: Tensor,
    Iter: Tensor | None = None,
    *,
    window_size: int = 10000,
    bit_length: _Bits = 8,
    is_test: bool = False,
) -> tuple[Tensor, Tensor, None]:
    """X as whole numbers, by the greatest magnitude so far; in tests by InScale.

    The greatest of all steps is kept: Iter, OutScales and window_size are not looked at.
    """
    scale = InScale if is_test else torch.maximum(InScale, _magnitude(X))
    return quantized(X, scale, bit_length), scale, None


def _averaged(
    x: Tensor, scale: Tensor | None, accum: Tensor | None, state: Tensor | None, rate: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Scale, state and sum after the batch x; what is there where nothing is kept."""
    if accum is None or state is None:
        return (_magnitude(x) if scale is None else scale), state, accum
    accum, state = rate * accum + _magnitude(x), rate * state + 1.0
    return accum / state, state, accum


@operator(
    "moving_average_abs_max_scale",
    outputs=_AVERAGED,
    uses=None,
    views={"Out": "X"},
    without_lod="OutScale OutState OutAccum",
)
def moving_average_abs_max_scale(
    X: Tensor,
    InAccum: Tensor | None = None,
    InState: Tensor | None = None,
    *,
    moving_rate: float = 0.9,
    is_test: bool = False,
) -> tuple[Tensor | None, ...]:
    """X, and in training scale = (rate * accum + max |X|) / (rate * state + 1)."""
    if is_test:
        return X, _magnitude(X), InState, InAccum
    return X, *_averaged(X, None, InAccum, InState, moving_rate)


@operator(
    "fake_quantize_moving_average_abs_max",
    outputs=_AVERAGED,
    uses=None,
    without_lod="OutScale OutState OutAccum",
)
def fake_quantize_moving_average_abs_max(
    X: Tensor,
    InScale: Tensor,
    InAccum: Tensor | None = None,
    InState: Tensor | None = None,
    *,
    moving_rate: float = 0.9,
    bit_length: _Bits = 8,
    is_test: bool = False,
) -> tuple[Tensor | None, ...]:
    """X as whole numbers, by the moving average of greatest magnitudes; in tests by InScale.

    scale = (moving_rate * accum + max |X|) / (moving_rate * state + 1).
    """
    kept = (None, None) if is_test else (InAccum, InState)
    scale, state, accum = _averaged(X, InScale, *kept, moving_rate)
    if is_test:
        state, accum = InState, InAccum
    return quantized(X, scale, bit_length), scale, state, accum


@operator(
    "fake_quantize_dequantize_moving_average_abs_max",
    outputs=_AVERAGED,
    uses=None,
    without_lod="OutScale OutState OutAccum",
    like="fake_quantize_moving_average_abs_max",
)
def fake_quantize_dequantize_moving_average_abs_max(
    X: Tensor, *others: Tensor | None, bit_length: int = 8, **settings: float
) -> tuple[Tensor | None, ...]:
    """What X is after it was made whole numbers and back."""
    whole, scale, *kept = fake_quantize_moving_average_abs_max(
        X, *others, bit_length=bit_length, **settings
    )
    assert whole is not None
    assert scale is not None
    return whole * scale / greatest(bit_length), scale, *kept


@operator("fake_dequantize_max_abs", outputs="Out", uses=None)
def fake_dequantize_max_abs(X: Tensor, Scale: Tensor, *, max_range: float) -> Tensor:
    """X * Scale / max_range."""
    return X * (Scale / max_range)


@operator("dequantize_abs_max", outputs="Out", uses=None)
def dequantize_abs_max(X: Tensor, Scale: Tensor, *, max_range: float) -> Tensor:
    """X * Scale / max_range, float32. X: int8."""
    return X.float() * (Scale.float() / max_range)


@operator("fake_channel_wise_dequantize_max_abs", outputs="Out", uses=None)
def fake_channel_wise_dequantize_max_abs(
    X: Tensor, Scales: list[Tensor], *, quant_bits: Sequence[int] = (8,)
) -> Tensor:
    """X times the scales, each divided by the greatest whole number of its bits.

    Scales: one for each channel, then perhaps one for all of X. A weight's channels are the first
    dimension of X; with two scales X is a result (of a convolution), with channels in the second.
    """
    axis = 0 if len(Scales) == 1 else 1
    out = X * (_by_channel(Scales[0], X, axis) / greatest(quant_bits[0]))
    for scale, bits in zip(Scales[1:], quant_bits[1:], strict=True):
        out = out * (scale / greatest(bits))
    return out
