"""Transposed convolutions in the corners: SAME with dilation, groups that don't divide."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.nn.transposed import conv_transpose, conv_transpose_grad
from refluid.ops.registry import find
from tests.ops.running import run_op

RANDOM = torch.Generator().manual_seed(3)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


@pytest.mark.parametrize("op_type", ["conv2d_transpose", "depthwise_conv2d_transpose"])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_goes_without_dilation(op_type: str, stride: int) -> None:
    definition = find(op_type)
    assert definition is not None
    assert definition.body is not None
    x, kernel = _random(2, 4, 5, 6), _random(4, 1, 3, 3)
    attrs = {"groups": 4, "strides": (stride, stride), "padding_algorithm": "SAME"}
    dilated = definition.body(x, kernel, dilations=(2, 2), **attrs)
    assert dilated.shape[2:] == ((5, 6) if stride == 1 else (9, 12))
    assert torch.equal(dilated, definition.body(x, kernel, **attrs))


def test_same_goes_without_dilation_in_volumes() -> None:
    x, kernel = _random(1, 2, 4, 3, 3), _random(2, 2, 3, 3, 3)
    attrs = {"strides": (2, 2, 2), "paddings": (0, 0, 0), "padding_algorithm": "SAME"}
    plain = conv_transpose(x, kernel, dilations=(1, 1, 1), **attrs)
    dilated = conv_transpose(x, kernel, dilations=(2, 2, 2), **attrs)
    assert dilated.shape[2:] == (8, 5, 5)
    assert torch.equal(dilated, plain)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_channels_behind_the_last_whole_group_are_left_out(data_format: str) -> None:
    first, kernel = _random(2, 5, 4, 4), _random(5, 3, 2, 2)
    last = data_format == "NHWC"
    x = first.movedim(1, -1) if last else first
    attrs = {"groups": 2, "data_format": data_format}
    out = conv_transpose(x, kernel, **attrs)
    wanted = torch.conv_transpose2d(first[:, :4], kernel[:4], groups=2)
    torch.testing.assert_close(out.movedim(-1, 1) if last else out, wanted)
    d_x, d_kernel, _ = conv_transpose_grad(x, kernel, None, torch.ones_like(out), **attrs)
    assert d_x is not None
    assert d_kernel is not None
    assert d_x.shape == x.shape
    assert not (d_x[..., 4] if last else d_x[:, 4]).any()
    assert d_kernel.shape == kernel.shape
    assert not d_kernel[4].any()
    assert d_kernel[:4].any()


@pytest.mark.parametrize("padding", [1, 2])
def test_an_output_of_no_elements_is_refused(padding: int) -> None:
    x, kernel = np.ones((2, 3, 1, 4), "float32"), np.ones((3, 2, 2, 3), "float32")
    attrs = {"strides": [1, 1], "paddings": [padding, 1], "dilations": [1, 1], "groups": 1}
    with pytest.raises(EnforceNotMet, match="would have the size"):
        run_op("conv2d_transpose", {"Input": x, "Filter": kernel}, attrs)


@pytest.mark.parametrize("size", [(14, 15), (15, 17)])
def test_a_size_that_no_stride_gives_is_refused(size: tuple[int, int]) -> None:
    x, kernel = torch.zeros(1, 2, 8, 8), torch.zeros(2, 3, 3, 3)
    attrs = {"strides": (2, 2), "paddings": (1, 1)}
    assert conv_transpose(x, kernel, output_size=(15, 16), **attrs).shape[2:] == (15, 16)
    with pytest.raises(EnforceNotMet, match=r"gives \[15, 15\] to \[16, 16\]"):
        conv_transpose(x, kernel, output_size=size, **attrs)
