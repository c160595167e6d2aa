"""Images rearranged in Fluid's order, and cut into the windows that fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.ops.nn.vision import space_to_depth
from refluid.ops.norm.channel_norms import affine_channel, affine_channel_grad
from refluid.ops.norm.layernorm import instance_norm
from refluid.ops.sequence.images import im2sequence, im2sequence_grad

L = fluid.layers


def _reorganised(x: Tensor, size: int) -> Tensor:
    """Element by element, as darknet's reorg."""
    n, channels, height, width = x.shape
    few = channels // size**2
    out = x.new_empty(n, few, height * size, width * size)
    for channel in range(channels):
        down, across = divmod(channel // few, size)
        out[:, channel % few, down::size, across::size] = x[:, channel]
    return out.reshape(n, channels * size**2, height // size, width // size)


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 8, 4, 4), 2), ((1, 9, 6, 3), 3), ((1, 4, 2, 6), 2)]
)
def test_space_to_depth(shape: tuple[int, ...], size: int) -> None:
    x = torch.randn(*shape)
    assert torch.equal(space_to_depth(x, blocksize=size), _reorganised(x, size))


def test_sequences_of_images_leave_out_what_no_window_covers() -> None:
    x = torch.arange(84.0).reshape(2, 1, 6, 7)
    attrs = {"kernels": (2, 3), "strides": (2, 1), "paddings": (1, 0, 2, 1)}
    rows, (offsets,) = im2sequence(x, **attrs)
    assert offsets.lengths == [24, 24]
    assert rows[:7, 0].tolist() == [0, 0, 0, 0, 0, 0, 7]
    assert rows[18, :3].tolist() == [35, 36, 37]
    flow = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    (wanted,) = torch.autograd.grad(im2sequence(x, **attrs)[0], x, flow)
    torch.testing.assert_close(im2sequence_grad(x.detach(), flow, **attrs), wanted)


def test_images_larger_than_their_windows_have_zeros_as_gradient_behind_them() -> None:
    x = torch.arange(30.0).reshape(1, 1, 5, 6)
    attrs = {"kernels": (2, 2), "strides": (3, 4)}
    rows, (offsets,) = im2sequence(x, **attrs)
    assert offsets.lengths == [4]
    gradient = im2sequence_grad(x, torch.ones_like(rows), **attrs)
    assert gradient.shape == x.shape
    assert gradient[0, 0].sum(1).tolist() == [4, 4, 0, 4, 4]


def test_channels_come_last_but_for_nchw() -> None:
    x, scale, bias = torch.randn(2, 4, 5, 3), torch.randn(3), torch.randn(3)
    for layout in ("NHWC", "AnyLayout"):
        torch.testing.assert_close(
            affine_channel(x, scale, bias, data_layout=layout), x * scale + bias
        )
        d_x, d_scale, _ = affine_channel_grad(x, scale, torch.ones_like(x), data_layout=layout)
        assert d_x is not None
        assert d_scale is not None
        assert (d_x.shape, d_scale.shape) == (x.shape, scale.shape)


def test_a_plane_of_one_number_is_normalised_to_the_bias() -> None:
    x, scale, bias = 1e4 * torch.randn(3, 4, 1, 1), torch.randn(4), torch.randn(4)
    y, mean, inverse = instance_norm(x, scale, bias)
    assert torch.equal(y, bias.view(1, 4, 1, 1).expand(3, 4, 1, 1))
    assert torch.equal(mean, x.flatten())
    np.testing.assert_allclose(inverse, 1e-5**-0.5, rtol=1e-6)


def test_declared_sizes_are_fluids() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, theta = fluid.data("x", [2, 3, 6, 7]), fluid.data("t", [2, 2, 3])
        assert L.im2sequence(x, 2).shape == (2, 12)
        assert L.affine_grid(theta, [2, 3, 4, 5]).shape == (2, -1, -1, 2)


def test_matmul_takes_equal_batches_only() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = fluid.data("x", [2, 1, 4, 3]), fluid.data("y", [2, 3, 3, 5])
        with pytest.raises(ValueError, match="must be equal"):
            L.matmul(x, y)
