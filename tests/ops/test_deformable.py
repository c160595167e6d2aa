"""Deformable convolution and pooling against plain loops, and their gradients."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from tests.ops.test_region_pooling import body, numbers

SETTING = {"strides": (2, 1), "paddings": (1, 2), "dilations": (1, 2)}
WINDOW = (3, 2)


def _padded(plane: Tensor, y: float, x: float) -> Tensor:
    """Interpolated (C, H, W) at a point of the zero-padded plane."""
    out = torch.zeros(len(plane), dtype=plane.dtype)
    top, left = int(y // 1), int(x // 1)
    for row, column in itertools.product((top, top + 1), (left, left + 1)):
        if 0 <= row < plane.shape[1] and 0 <= column < plane.shape[2]:
            out += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[:, row, column]
    return out


def _convolved(X: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, groups: int) -> Tensor:
    """One group of filters, `groups` groups of offsets."""
    n, channels = X.shape[:2]
    out = torch.zeros(n, len(weight), *offset.shape[2:], dtype=X.dtype)
    share, taps = channels // groups, list(itertools.product(*map(range, WINDOW)))
    for image, group, (tap, (i, j)) in itertools.product(range(n), range(groups), enumerate(taps)):
        own = slice(group * share, (group + 1) * share)
        number = group * len(taps) + tap
        for row, column in itertools.product(*map(range, offset.shape[2:])):
            dy, dx = offset[image, 2 * number : 2 * number + 2, row, column].tolist()
            y = row * SETTING["strides"][0] - SETTING["paddings"][0] + i * SETTING["dilations"][0]
            x = (
                column * SETTING["strides"][1]
                - SETTING["paddings"][1]
                + j * SETTING["dilations"][1]
            )
            seen = _padded(X[image, own], y + dy, x + dx) * mask[image, number, row, column]
            out[image, :, row, column] += weight[:, own, i, j] @ seen
    return out


@pytest.mark.parametrize("groups", [1, 2])
def test_deformable_conv(groups: int) -> None:
    X, weight = numbers(2, 4, 7, 6), numbers(3, 4, *WINDOW, seed=1)
    offset, mask = numbers(2, 12 * groups, 4, 8, seed=2) * 2, numbers(2, 6 * groups, 4, 8, seed=3)
    attrs = {**SETTING, "deformable_groups": groups}
    out = body("deformable_conv")(X, offset, mask, weight, **attrs)
    torch.testing.assert_close(out, _convolved(X, offset, mask, weight, groups))
    plain = body("deformable_conv_v1")(X, offset, weight, **attrs)
    torch.testing.assert_close(plain, _convolved(X, offset, torch.ones_like(mask), weight, groups))


@pytest.mark.parametrize("groups", [1, 2])
def test_without_offsets_it_is_a_convolution(groups: int) -> None:
    X, weight = numbers(2, 4, 7, 6), numbers(6, 4 // groups, *WINDOW, seed=1)
    wanted = F.conv2d(X, weight, None, *SETTING.values(), groups)
    offset = torch.zeros(2, 12, *wanted.shape[2:], dtype=X.dtype)
    out = body("deformable_conv_v1")(X, offset, weight, groups=groups, **SETTING)
    torch.testing.assert_close(out, wanted)


def test_gradients_of_deformable_conv() -> None:
    def convolved(*inputs: Tensor) -> Any:
        return body("deformable_conv")(*inputs, groups=2, deformable_groups=2, **SETTING)

    offset, mask = numbers(1, 24, 3, 6, seed=2), numbers(1, 12, 3, 6, seed=3)
    inputs = numbers(1, 4, 5, 4), offset, mask, numbers(2, 2, *WINDOW, seed=1)
    assert torch.autograd.gradcheck(
        convolved, tuple(one.requires_grad_() for one in inputs), fast_mode=True
    )


def test_taps_a_pixel_outside_do_not_move_in() -> None:
    X, offset = torch.ones(1, 1, 3, 3), torch.zeros(1, 18, 3, 3, requires_grad=True)
    out = body("deformable_conv_v1")(X, offset, torch.ones(1, 1, 3, 3), paddings=(1, 1))
    out.sum().backward()
    assert offset.grad is not None
    assert offset.grad[0, :2, 0].abs().sum() == 0


def test_wrong_number_of_offsets() -> None:
    X, weight = numbers(1, 2, 5, 5), numbers(2, 2, 3, 3)
    with pytest.raises(EnforceNotMet, match="18 channels"):
        body("deformable_conv_v1")(X, numbers(1, 9, 3, 3), weight)


def test_pooling_without_offsets_of_a_plane() -> None:
    """Of a plane x + 2y a bin is the value in the middle of its samples."""
    y, x = torch.meshgrid(*[torch.arange(12, dtype=torch.float64)] * 2, indexing="ij")
    rois = torch.tensor([[4, 2, 15, 9]], dtype=torch.float64)
    count, out = body("deformable_psroi_pooling")(
        (x + 2 * y)[None, None],
        rois,
        torch.zeros(1, 2, 1, 1, dtype=torch.float64),
        no_trans=True,
        spatial_scale=0.5,
        output_dim=1,
        group_size=(1, 1),
        pooled_height=2,
        pooled_width=3,
        part_size=(1, 1),
        sample_per_part=4,
        trans_std=0.1,
        lod_ROIs=(Offsets([0, 1]),),
    )
    assert count.tolist() == [[[[16.0] * 3] * 2]]
    for i, j in itertools.product(range(2), range(3)):
        at_x = 1.5 + 2 * (j + 0.375)
        at_y = 0.5 + 2 * (i + 0.375)
        assert out[0, 0, i, j] == pytest.approx(at_x + 2 * at_y)


def test_gradients_of_deformable_pooling() -> None:
    lod = (Offsets([0, 1, 3]),)
    rois = torch.tensor([[1, 2, 9, 8], [0, 0, 4, 5], [2, 3, 12, 13]], dtype=torch.float64)
    attrs: dict[str, Any] = {
        "no_trans": False,
        "spatial_scale": 0.5,
        "output_dim": 4,
        "group_size": (2, 1),
        "pooled_height": 2,
        "pooled_width": 3,
        "part_size": (2, 2),
        "sample_per_part": 2,
        "trans_std": 0.1,
        "lod_ROIs": lod,
    }

    def pooled(X: Tensor, trans: Tensor) -> Any:
        return body("deformable_psroi_pooling")(X, rois, trans, **attrs)[1]

    X, trans = numbers(2, 8, 7, 7).requires_grad_(), numbers(3, 4, 2, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(pooled, (X, trans), fast_mode=True)
    out = pooled(X, trans)
    d_out = numbers(*out.shape, seed=2)
    wanted = torch.autograd.grad(out, (X, trans), d_out)
    grad = body("deformable_psroi_pooling_grad")
    for found, one in zip(grad(X, rois, trans, out, d_out, **attrs), wanted, strict=True):
        torch.testing.assert_close(found, one)
    still = grad(X, rois, trans, out, d_out, **attrs | {"no_trans": True})
    assert still[1].abs().sum() == 0


def test_fluids_cpu_leaves_out_images_behind_the_last_whole_group() -> None:
    X, weight = numbers(3, 2, 5, 5), numbers(2, 2, 3, 3)
    offset = torch.zeros(3, 18, 3, 3, dtype=X.dtype)
    whole = body("deformable_conv_v1")(X, offset, weight)
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        out = body("deformable_conv_v1")(X, offset, weight, im2col_step=2)
    assert torch.equal(out[:2], whole[:2])
    assert not out[2].any()
