"""Gradients of depthwise convolutions in bfloat16 on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from refluid.ops.convolution import conv2d_grad

CHANNELS = 8
# Rounding to bfloat16 alone is 2**-9 of a value.
TOLERANCE = 2**-8


class _Multiplied(TorchDispatchMode):
    """Which element type the gradient's kernel gets."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution_backward.default:
            self.dtypes |= {one.dtype for one in args[:3]}
        return func(*args, **(kwargs or {}))


def gradients(
    kernel: int, stride: int, channels: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, set[torch.dtype]]:
    """Of filter and input, and what they were multiplied in; same numbers for each dtype."""
    source = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=source).bfloat16().to(dtype)

    x, filters = drawn(2, channels, 15, 15), drawn(channels, 1, kernel, kernel)
    out = -(-15 // stride)
    with _Multiplied() as used:
        _, d_filter, d_input = conv2d_grad(
            x,
            filters,
            None,
            drawn(2, channels, out, out),
            strides=(stride, stride),
            paddings=(kernel // 2, kernel // 2),
            groups=channels,
        )
    assert d_filter is not None and d_input is not None
    return d_filter, d_input, used.dtypes


@pytest.mark.parametrize(
    ("kernel", "stride", "multiplied"),
    [
        (3, 2, torch.float32),
        (5, 1, torch.float32),
        (5, 2, torch.float32),
        (3, 1, torch.bfloat16),
        (1, 1, torch.bfloat16),
    ],
)
def test_depthwise_in_bfloat16(kernel: int, stride: int, multiplied: torch.dtype) -> None:
    *found, used = gradients(kernel, stride, CHANNELS, torch.bfloat16)
    *wanted, _ = gradients(kernel, stride, CHANNELS, torch.float32)
    for one, exact in zip(found, wanted, strict=True):
        assert one.dtype is torch.bfloat16
        assert (one.float() - exact).norm() <= TOLERANCE * exact.norm()
        torch.testing.assert_close(
            one.float(), exact, rtol=TOLERANCE, atol=TOLERANCE * float(exact.abs().max())
        )
    assert used == {multiplied}


def test_one_channel_is_no_depthwise_convolution() -> None:
    assert gradients(5, 2, 1, torch.bfloat16)[2] == {torch.bfloat16}
