"""Grids and windows of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.whole import elements, is_whole
from refluid.fluid.functions.nn.windows import per_dimension
from refluid.ir.variable import Variable


def affine_grid(
    theta: Variable, out_shape: Sequence[int] | Variable, name: str | None = None
) -> Variable:
    """Where an affine map takes the points of images of shape `out_shape` (N, C, H, W).

    theta: (N, 2, 3). The result, (N, H, W, 2), is in coordinates from -1 to 1 for `grid_sampler`.
    """
    inputs: dict[str, Any] = {"Theta": theta}
    attrs: dict[str, Any] = {}
    if isinstance(out_shape, Variable):
        inputs["OutputShape"] = out_shape
    else:
        attrs["output_shape"] = list(out_shape)
    return op("affine_grid", inputs, attrs, name=name)


def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """Samples of `x`, (N, C, H, W), at the points of `grid`, (N, H, W, 2), bilinearly."""
    return op("grid_sampler", {"X": x, "Grid": grid}, name=name)


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Each block of blocksize x blocksize pixels as channels of one pixel."""
    if not is_whole(blocksize):
        raise ValueError(f"space_to_depth: blocksize must be an int, not {blocksize!r}")
    return op("space_to_depth", {"X": x}, {"blocksize": blocksize}, name=name)


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """(N, C * r * r, H, W) -> (N, C, H * r, W * r), r being the factor."""
    if not is_whole(upscale_factor):
        raise TypeError(f"pixel_shuffle: upscale_factor must be an int, not {upscale_factor!r}")
    return op("pixel_shuffle", {"X": x}, {"upscale_factor": upscale_factor})


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """The channels of `group` groups mixed: the first of each, then the second of each, ..."""
    if not is_whole(group):
        raise TypeError(f"shuffle_channel: group must be an int, not {group!r}")
    return op("shuffle_channel", {"X": x}, {"group": group})


def temporal_shift(
    x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None
) -> Variable:
    """A share of the channels of `seg_num` successive images moved one step back, one forth."""
    if not is_whole(seg_num):
        raise TypeError(f"temporal_shift: seg_num must be an int, not {seg_num!r}")
    attrs = {"seg_num": seg_num, "shift_ratio": shift_ratio}
    return op("temporal_shift", {"X": x}, attrs, name=name)


def unfold(
    x: Variable,
    kernel_sizes: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    paddings: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images (N, C, H, W) as columns: (N, C * kh * kw, number of windows).

    paddings: one number, (height, width), or (top, left, bottom, right).
    """
    around = [paddings] * 4 if is_whole(paddings) else elements(paddings, "unfold: paddings")
    around = around * 2 if len(around) == 2 else around
    if len(around) != 4:
        raise ValueError(f"unfold: paddings must be one, 2 or 4 numbers, not {paddings!r}")
    attrs = {
        "kernel_sizes": per_dimension(kernel_sizes, 2, "kernel_sizes"),
        "strides": per_dimension(strides, 2, "strides"),
        "paddings": around,
        "dilations": per_dimension(dilations, 2, "dilations"),
    }
    return op("unfold", {"X": x}, attrs, name=name)


def similarity_focus(
    input: Variable, axis: int, indexes: Sequence[int], name: str | None = None
) -> Variable:
    """A mask of the shape of `input`, (N, A, B, C): 1 at the greatest elements of some planes.

    axis: 1, 2 or 3; indexes: which planes of it. No two ones of a plane are in one row or column.
    """
    if axis not in (1, 2, 3):
        raise ValueError(f"similarity_focus: axis must be 1, 2 or 3, not {axis}")
    if not indexes:
        raise ValueError("similarity_focus: indexes can't be empty")
    attrs = {"axis": axis, "indexes": list(indexes)}
    return op("similarity_focus", {"X": input}, attrs, name=name)


def add_position_encoding(
    input: Variable, alpha: float, beta: float, name: str | None = None
) -> Variable:
    """alpha * input + beta * sines and cosines of the position, for (N, length, size)."""
    attrs = {"alpha": alpha, "beta": beta}
    return op("add_position_encoding", {"X": [input]}, attrs, name=name)
