"""Pools with windows that stick out, or lie in the padding alone, against one window at a time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.nn.pooling import pool2d
from refluid.ops.nn.volumes import pool3d

LOWEST = torch.finfo(torch.float32).min
GEOMETRY = [
    ([2, 2], [2, 2], [1, 1]),
    ([3, 2], [2, 3], [1, 0]),
    ([2, 3], [3, 1], [1, 1]),
    ([1, 2], [2, 2], [2, 1]),
    ([3, 3], [2, 2], [0, 0]),
    ([2, 2], [2, 3], [0, 1, 1, 0]),
]


def _pooled(x: Tensor, kind: str, exclusive: bool, geometry: Any, ceil_mode: bool) -> Tensor:
    """One channel (H, W) pooled as Fluid's documentation has it."""
    ksize, strides, paddings = geometry
    pads = paddings if len(paddings) == 4 else [pad for pad in paddings for _ in range(2)]
    counts = []
    for dim in (0, 1):
        room = x.shape[dim] + pads[2 * dim] + pads[2 * dim + 1] - ksize[dim]
        counts.append((room + (strides[dim] - 1 if ceil_mode else 0)) // strides[dim] + 1)
    out = torch.empty(counts)
    for place in itertools.product(*map(range, counts)):
        first = [place[dim] * strides[dim] - pads[2 * dim] for dim in (0, 1)]
        low = [max(at, 0) for at in first]
        high = [min(first[dim] + ksize[dim], x.shape[dim]) for dim in (0, 1)]
        window = x[low[0] : max(high[0], low[0]), low[1] : max(high[1], low[1])]
        if kind == "max":
            out[place] = window.max() if window.numel() else LOWEST
        else:
            sides = [high[dim] - low[dim] for dim in (0, 1)] if exclusive else ksize
            out[place] = window.sum() / torch.tensor(float(sides[0] * sides[1]))
    return out


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize(("kind", "exclusive"), [("max", True), ("avg", True), ("avg", False)])
def test_images(
    kind: str, exclusive: bool, geometry: Any, ceil_mode: bool, data_format: str
) -> None:
    last = data_format == "NHWC"
    x = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(1))
    ksize, strides, paddings = geometry
    out = pool2d(
        x.movedim(1, -1) if last else x,
        pooling_type=kind,
        ksize=ksize,
        strides=strides,
        paddings=paddings,
        exclusive=exclusive,
        ceil_mode=ceil_mode,
        data_format=data_format,
    )
    out = out.movedim(-1, 1) if last else out
    for image, channel in itertools.product(range(2), range(3)):
        wanted = _pooled(x[image, channel], kind, exclusive, geometry, ceil_mode)
        torch.testing.assert_close(out[image, channel], wanted, equal_nan=True)


@pytest.mark.parametrize(("kind", "exclusive"), [("max", True), ("avg", True), ("avg", False)])
def test_volumes_are_images_in_two_of_their_dimensions(kind: str, exclusive: bool) -> None:
    x = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(1))
    attrs: dict[str, Any] = {"pooling_type": kind, "exclusive": exclusive, "ceil_mode": True}
    flat = pool2d(x, ksize=[2, 2], strides=[2, 2], paddings=[1, 1], **attrs)
    deep = pool3d(x.unsqueeze(2), ksize=[1, 2, 2], strides=[1, 2, 2], paddings=[0, 1, 1], **attrs)
    assert flat.shape[2:] == (5, 5)
    torch.testing.assert_close(deep.squeeze(2), flat, equal_nan=True)


def test_windows_in_the_padding_have_no_gradient() -> None:
    x = torch.randn(1, 1, 7, 8, requires_grad=True)
    out = pool2d(
        x, pooling_type="max", ksize=[2, 2], strides=[2, 2], paddings=[1, 1], ceil_mode=True
    )
    out.backward(torch.ones_like(out))
    assert x.grad is not None
    assert x.grad.sum() == 4 * 5


@pytest.mark.parametrize("pool", [pool2d, pool3d])
def test_the_first_of_equal_elements_has_the_gradient_of_the_whole(pool: Any) -> None:
    x = torch.ones(1, 2, *[2] * (2 if pool is pool2d else 3), requires_grad=True)
    sizes = [1] * (x.dim() - 2)
    pool(x, pooling_type="max", ksize=sizes, strides=sizes, global_pooling=True).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten(2)[..., 0].tolist() == [[1.0, 1.0]]
    assert x.grad.sum() == 2


@pytest.mark.parametrize(
    ("geometry", "says"),
    [
        ({"ksize": (0, 2)}, r"the window \[0, 2\]: each size has to be at least 1"),
        ({"ksize": (2, 2), "strides": (0, 1)}, r"strides \[0, 1\]: each size has to be at least 1"),
    ],
)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_empty_windows_and_steps_of_nothing_are_told(kind: str, geometry: Any, says: str) -> None:
    with pytest.raises(EnforceNotMet, match=says):
        pool2d(torch.ones(1, 1, 4, 4), pooling_type=kind, **geometry)


@pytest.mark.parametrize(
    ("size", "pad", "step", "ceil_mode", "fits"),
    [
        (4, 0, 1, False, True),
        (5, 0, 1, False, False),
        (6, 0, 3, False, True),
        (7, 0, 3, False, False),
        (7, 1, 2, False, True),
        (8, 1, 2, False, False),
        (5, 0, 2, True, True),
        (7, 0, 2, True, False),
        (8, 0, 3, True, True),
        (9, 0, 3, True, False),
    ],
)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_a_window_that_lacks_a_stride_is_refused(
    kind: str, size: int, pad: int, step: int, ceil_mode: bool, fits: bool
) -> None:
    """Of 4 x 4 pixels, as by paddle 2.6.2; where it lacks less there is one window."""
    x = torch.arange(16.0).reshape(1, 1, 4, 4)

    def pooled() -> Tensor:
        return pool2d(
            x,
            pooling_type=kind,
            ksize=(size, size),
            paddings=(pad, pad),
            strides=(step, step),
            ceil_mode=ceil_mode,
        )

    if fits:
        assert pooled().flatten().tolist() == [15.0 if kind == "max" else 7.5]
    else:
        with pytest.raises(EnforceNotMet, match=rf"windows \[{size}, {size}\] are larger than im"):
            pooled()
