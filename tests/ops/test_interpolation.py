"""Resizing to a single element, and by a factor that single precision rounds up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from tests.ops.test_region_pooling import body

IMAGE = torch.tensor([[1.0, 2, 4, 8], [16, 32, 64, 128], [3, 5, 7, 9]])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("align_mode", [0, 1])
@pytest.mark.parametrize("op_type", ["nearest_interp", "bilinear_interp"])
def test_a_single_element_is_the_first(op_type: str, align_mode: int, corners: bool) -> None:
    attrs: dict[str, Any] = {"align_corners": corners, "align_mode": align_mode}
    x = IMAGE.reshape(1, 1, 3, 4)
    assert body(op_type)(x, out_h=1, out_w=1, **attrs).tolist() == [[[[1.0]]]]
    kept = body(op_type)(x, out_h=1, out_w=4, **attrs)
    torch.testing.assert_close(kept[0, 0, 0], IMAGE[0])
    kept = body(op_type)(x, out_h=3, out_w=1, **attrs)
    torch.testing.assert_close(kept[0, 0, :, 0], IMAGE[:, 0])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("align_mode", [0, 1])
def test_so_it_is_in_volumes(align_mode: int, corners: bool) -> None:
    x = torch.stack([IMAGE, -IMAGE]).reshape(1, 1, 2, 3, 4)
    attrs: dict[str, Any] = {"align_corners": corners, "align_mode": align_mode}
    out = body("trilinear_interp")(x, out_d=1, out_h=3, out_w=4, **attrs)
    torch.testing.assert_close(out[0, 0, 0], IMAGE)


def test_its_gradient_is_that_of_the_first() -> None:
    x = IMAGE.reshape(1, 1, 3, 4).clone().requires_grad_()
    out = body("bilinear_interp")(x, out_h=1, out_w=1, align_corners=False, align_mode=0)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1.0] + [0.0] * 11


def test_a_cubic_kernel_is_half_an_element_off() -> None:
    x = IMAGE.reshape(1, 1, 3, 4)
    out = body("bicubic_interp")(x, out_h=1, out_w=4, align_corners=False)
    torch.testing.assert_close(out[0, 0, 0], 1.09375 * IMAGE[0] - 0.09375 * IMAGE[1])
    out = body("bicubic_interp")(x, out_h=1, out_w=4, align_corners=True)
    torch.testing.assert_close(out[0, 0, 0], IMAGE[0])


def test_factors_are_in_single_precision() -> None:
    x, scale = torch.zeros(1, 1, 10, 100), float(np.float32(0.7))
    assert int(10 * scale) == 6
    assert body("nearest_interp")(x, scale=scale).shape == (1, 1, 7, 70)


def test_a_factor_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(EnforceNotMet, match=r"greater than 0, but are \[0, 7\]"):
        body("nearest_interp")(torch.zeros(1, 1, 10, 100), scale=0.07)


@pytest.mark.parametrize("factors", [[2.0], [2.0, 1.0, 3.0, 3.0]])
def test_the_first_of_several_factors_counts(factors: list[float]) -> None:
    x = IMAGE.reshape(1, 1, 3, 4)
    out = body("nearest_interp")(x, Scale=torch.tensor(factors), out_h=-1, out_w=-1)
    assert out.shape == (1, 1, 6, 8)


def test_no_factor_is_refused() -> None:
    with pytest.raises(EnforceNotMet, match="Scale has no element"):
        body("bilinear_interp")(IMAGE.reshape(1, 1, 3, 4), Scale=torch.zeros(0))
