"""Pooling of regions against plain loops over regions, bins and samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Offsets
from refluid.ops.registry import find

LOD = (Offsets([0, 2, 2, 5]),)
IMAGES = [0, 0, 2, 2, 2]
SCALE, SIZE = 0.5, (3, 2)


def body(op_type: str) -> Callable[..., Any]:
    definition = find(op_type)
    assert definition is not None and definition.body is not None
    return definition.body


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def some_rois() -> Tensor:
    """Regions of all kinds: inside, far outside, tiny, the wrong way round, large."""
    return torch.tensor(
        [[1.2, 2.1, 9.7, 8.3], [-4, -3, 3.5, 4], [6, 5, 6.2, 5.1], [9, 9, 4, 5], [-2, 1, 30, 25]],
        dtype=torch.float64,
    )


def bilinear(plane: Tensor, y: float, x: float) -> Tensor:
    """Interpolated (C, H, W) at a point, 0 beyond one pixel outside, constant up to there."""
    height, width = plane.shape[1:]
    if y < -1 or x < -1 or y > height or x > width:
        return torch.zeros(len(plane), dtype=plane.dtype)
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    low, right = min(top + 1, height - 1), min(left + 1, width - 1)
    fy, fx = y - top, x - left
    upper = (1 - fx) * plane[:, top, left] + fx * plane[:, top, right]
    return (1 - fy) * upper + fy * ((1 - fx) * plane[:, low, left] + fx * plane[:, low, right])


def aligned(X: Tensor, rois: Tensor, ratio: int) -> Tensor:
    out = torch.zeros(len(rois), X.shape[1], *SIZE, dtype=X.dtype)
    for number, (x1, y1, x2, y2) in enumerate((rois * SCALE).tolist()):
        high, wide = (max(y2 - y1, 1) / SIZE[0], max(x2 - x1, 1) / SIZE[1])
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
        for i, j in itertools.product(range(SIZE[0]), range(SIZE[1])):
            samples = [
                bilinear(
                    X[IMAGES[number]],
                    y1 + (i + (a + 0.5) / rows) * high,
                    x1 + (j + (b + 0.5) / columns) * wide,
                )
                for a, b in itertools.product(range(rows), range(columns))
            ]
            out[number, :, i, j] = torch.stack(samples).mean(0)
    return out


@pytest.mark.parametrize("ratio", [1, 2, -1])
def test_roi_align(ratio: int) -> None:
    X, rois = numbers(3, 4, 8, 7), some_rois()
    out = body("roi_align")(
        X,
        rois,
        spatial_scale=SCALE,
        pooled_height=SIZE[0],
        pooled_width=SIZE[1],
        sampling_ratio=ratio,
        lod_ROIs=LOD,
    )
    torch.testing.assert_close(out, aligned(X, rois, ratio))


def rounded(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def cells(rois: Tensor, shape: torch.Size, corner: Callable[..., Any]) -> Any:
    """Number, bin and pixels (slices) of each bin of each region."""
    for number, roi in enumerate(rois.tolist()):
        start, extent = corner(roi)
        for i, j in itertools.product(range(SIZE[0]), range(SIZE[1])):
            spans = []
            for axis, at in ((0, i), (1, j)):
                step = extent[axis] / SIZE[axis]
                first = math.floor(at * step + start[axis])
                last = math.ceil((at + 1) * step + start[axis])
                limit = shape[2 + axis]
                spans.append(slice(min(max(first, 0), limit), min(max(last, 0), limit)))
            yield number, i, j, tuple(spans)


@pytest.mark.parametrize(
    ("broken", "corner"), [*((math.nan, n) for n in range(4)), (math.inf, 2), (-math.inf, 1)]
)
def test_regions_that_are_no_numbers(broken: float, corner: int) -> None:
    rois = some_rois()
    rois[3, corner] = broken
    for ratio in (-1, 2):
        with pytest.raises(ValueError, match="corners of ROIs are NaN or infinite"):
            body("roi_align")(numbers(3, 2, 7, 6), rois, sampling_ratio=ratio, lod_ROIs=LOD)


def test_regions_that_are_no_numbers_are_of_no_level() -> None:
    rois = some_rois()
    rois[0, 2] = math.nan
    levels = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 9}
    with pytest.raises(ValueError, match="corners of RoIs are NaN"):
        body("distribute_fpn_proposals")(rois, **levels, lod_FpnRois=LOD)


def test_roi_pool_and_its_gradient() -> None:
    def corner(roi: list[float]) -> Any:
        x1, y1, x2, y2 = (rounded(value * SCALE) for value in roi)
        return (y1, x1), (max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1))

    X, rois = numbers(3, 4, 8, 7), some_rois()
    X.requires_grad_()
    wanted = torch.zeros(5, 4, *SIZE, dtype=X.dtype)
    for number, i, j, (rows, columns) in cells(rois, X.shape, corner):
        pixels = X[IMAGES[number], :, rows, columns].flatten(1)
        if pixels.shape[1]:
            wanted[number, :, i, j] = pixels.max(1).values
    attrs = {"spatial_scale": SCALE, "pooled_height": SIZE[0], "pooled_width": SIZE[1]}
    out, places = body("roi_pool")(X.detach(), rois, lod_ROIs=LOD, **attrs)
    torch.testing.assert_close(out, wanted.detach())
    assert places.dtype == torch.int32
    d_out = numbers(*out.shape, seed=1)
    found = body("roi_pool_grad")(X, rois, None, places, d_out, lod_ROIs=LOD)
    torch.testing.assert_close(found, torch.autograd.grad(wanted, X, d_out)[0])


def test_psroi_pool() -> None:
    def corner(roi: list[float]) -> Any:
        x1, y1 = (rounded(value) * SCALE for value in roi[:2])
        x2, y2 = ((rounded(value) + 1) * SCALE for value in roi[2:])
        return (y1, x1), (max(y2 - y1, 0.1), max(x2 - x1, 0.1))

    channels = 2
    X, rois = numbers(3, channels * SIZE[0] * SIZE[1], 8, 7), some_rois()
    by_bin = X.reshape(3, channels, *SIZE, 8, 7)
    wanted = torch.zeros(5, channels, *SIZE, dtype=X.dtype)
    for number, i, j, (rows, columns) in cells(rois, X.shape, corner):
        pixels = by_bin[IMAGES[number], :, i, j, rows, columns].flatten(1)
        if pixels.shape[1]:
            wanted[number, :, i, j] = pixels.mean(1)
    out = body("psroi_pool")(
        X,
        rois,
        output_channels=channels,
        spatial_scale=SCALE,
        pooled_height=SIZE[0],
        pooled_width=SIZE[1],
        lod_ROIs=LOD,
    )
    torch.testing.assert_close(out, wanted)


def test_prroi_pool_is_the_integral() -> None:
    """Of a plane x + 2y the mean over a bin is its value in the middle; a gradient for RoIs too."""
    y, x = torch.meshgrid(*[torch.arange(16, dtype=torch.float64)] * 2, indexing="ij")
    rois = torch.tensor([[2.3, 3.1, 17.9, 26.5]], dtype=torch.float64)
    attrs = {"spatial_scale": SCALE, "pooled_height": SIZE[0], "pooled_width": SIZE[1]}
    out = body("prroi_pool")((x + 2 * y)[None, None], rois, lod_ROIs=(Offsets([0, 1]),), **attrs)
    (x1, y1, x2, y2) = (rois[0] * SCALE).tolist()
    for i, j in itertools.product(range(SIZE[0]), range(SIZE[1])):
        middle = x1 + (x2 - x1) * (j + 0.5) / SIZE[1], y1 + (y2 - y1) * (i + 0.5) / SIZE[0]
        assert out[0, 0, i, j] == pytest.approx(middle[0] + 2 * middle[1])

    def pooled(X: Tensor, rois: Tensor) -> Any:
        return body("prroi_pool")(X, rois, torch.tensor([2, 0, 3]), **attrs)

    inputs = numbers(3, 2, 5, 6).requires_grad_(), (some_rois() * 0.7).requires_grad_()
    assert torch.autograd.gradcheck(pooled, inputs, fast_mode=True)


def test_perspective_of_an_upright_region_is_a_crop() -> None:
    X = numbers(1, 2, 8, 9)
    rois = torch.tensor([[2, 1, 5, 1, 5, 4, 2, 4]], dtype=torch.float64)
    attrs = {"transformed_height": 4, "transformed_width": 6, "lod_ROIs": (Offsets([0, 1]),)}
    out, mask, matrix, *_, lod = body("roi_perspective_transform")(X, rois, **attrs)
    torch.testing.assert_close(out[0, :, :, :4], X[0, :, 1:5, 2:6], atol=1e-4, rtol=1e-4)
    assert mask[0, 0].tolist() == [[1, 1, 1, 1, 0, 0]] * 4
    assert (lod, matrix.shape) == (attrs["lod_ROIs"], (1, 9))
    d_out = numbers(*out.shape, seed=1)
    empty = torch.zeros(0)
    found = body("roi_perspective_transform_grad")(X, rois, empty, empty, d_out, **attrs)
    torch.testing.assert_close((found * X).sum(), (d_out * out).sum())


@pytest.mark.parametrize("op_type", ["roi_align", "roi_pool", "prroi_pool", "psroi_pool"])
def test_no_regions(op_type: str) -> None:
    more = {"output_channels": 2} if op_type == "psroi_pool" else {}
    none = torch.zeros(0, 4, dtype=torch.float64)
    X = numbers(3, 2, 4, 4).requires_grad_()
    out = body(op_type)(X, none, lod_ROIs=(Offsets([0, 0, 0, 0]),), **more)
    first = out[0] if isinstance(out, tuple) else out
    assert first.shape == (0, 2, 1, 1)
    with pytest.raises(EnforceNotMet, match="LoD"):
        body(op_type)(X, none, **more)
    with pytest.raises(EnforceNotMet, match="4 images"):
        body(op_type)(X, none, lod_ROIs=(Offsets([0, 0, 0, 0, 0]),), **more)
