"""Gradients of depthwise convolutions in bfloat16 on the CPU."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from refluid.kernels import depthwise
from refluid.kernels.processor import vector_bits
from refluid.ops.nn.convolution import _gradients, conv2d_grad

CHANNELS = 8
# How far a value is at most from what it is rounded to, in parts of the value: 8 bits, and 24.
BFLOAT16, FLOAT32 = 2**-8, 2**-24


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
    kernel: int, stride: int, channels: int, dtype: torch.dtype, magnitudes: bool = False
) -> tuple[torch.Tensor, torch.Tensor, set[torch.dtype]]:
    """Of filter and input, and what they were multiplied in; same numbers for each dtype.

    magnitudes: of the numbers without their signs, which are sums of the magnitudes of products.
    """
    source = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> torch.Tensor:
        numbers = torch.randn(shape, generator=source).bfloat16().to(dtype)
        return numbers.abs() if magnitudes else numbers

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


@pytest.mark.parametrize("kernel, stride", [(3, 2), (5, 1), (5, 2), (3, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("most_bits", [256, 512])
def test_depthwise_in_bfloat16(
    kernel: int, stride: int, most_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = min(most_bits, vector_bits())
    monkeypatch.setattr(depthwise, "vector_bits", lambda: bits)
    *found, used = gradients(kernel, stride, CHANNELS, torch.bfloat16)
    *wanted, _ = gradients(kernel, stride, CHANNELS, torch.float64)
    *sums, _ = gradients(kernel, stride, CHANNELS, torch.float64, magnitudes=True)
    alone = stride > 1 or kernel > 3
    multiplied = torch.float32 if alone and (bits < 512 or kernel > 3) else torch.bfloat16
    for one, exact, most in zip(found, wanted, sums, strict=True):
        assert one.dtype is torch.bfloat16
        # Sums in float32 are rounded once, at their end. Kernels for bfloat16 may also keep the
        # sum in bfloat16 from one row of the filter to the next: so many roundings of parts of
        # the sum, none of which is larger than the sum of magnitudes.
        rounded = exact.abs() if alone and bits < 512 else kernel * most
        products = 2 * 15 * 15 * FLOAT32 * most
        assert ((one.double() - exact).abs() <= BFLOAT16 * rounded + products).all()
    assert used == {multiplied}


def test_depthwise_in_bfloat16_of_any_sizes() -> None:
    alone = 0
    for seed in range(200):
        draws = random.Random(seed)
        torch.manual_seed(seed)
        size, strides, pads, dilations = (
            (draws.randint(*span), draws.randint(*span))
            for span in ((1, 5), (1, 3), (0, 5), (1, 2))
        )
        least = [
            max(1, (n - 1) * by + 1 - 2 * pad)
            for n, by, pad in zip(size, dilations, pads, strict=True)
        ]
        channels, more = draws.randint(2, 9), draws.choice([1, 1, 2])
        high, wide = (n + draws.randint(0, 9) for n in least)
        x = torch.randn(2, channels, high, wide).bfloat16()
        filters = torch.randn(more * channels, 1, *size).bfloat16()
        steps = strides, pads, dilations
        grad = torch.randn_like(torch.conv2d(x.float(), filters.float(), None, *steps, channels))
        given, bias = (grad.bfloat16(), x, filters), torch.zeros(more * channels).bfloat16()
        wanted = tuple(draws.random() < 0.7 for _ in range(3))
        found = _gradients(given, bias, steps, channels, wanted)
        if not depthwise.lacks_kernels(filters, strides):
            continue  # torch's alone, of which some add up in bfloat16
        alone += 1
        exact, most = (
            torch.ops.aten.convolution_backward(
                *(change(one.double()) for one in given),
                [more * channels],
                *steps,
                False,
                (0, 0),
                channels,
                3 * [True],
            )
            for change in (lambda one: one, torch.abs)
        )
        for one, asked, right, scale in zip(found, wanted, exact, most, strict=True):
            if asked:
                assert one is not None
                assert one.shape == right.shape
                rounding = (max(size) * BFLOAT16 + 400 * FLOAT32) * scale
                assert ((one.double() - right).abs() <= rounding).all(), seed
    assert alone > 50


def test_one_channel_is_no_depthwise_convolution() -> None:
    assert gradients(5, 2, 1, torch.bfloat16)[2] == {torch.bfloat16}
