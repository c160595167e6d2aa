"""Pooling of regions of interest: (N, C, H, W) and R regions give (R, C, height, width).

Regions are rows x1, y1, x2, y2 in pixels of the original image, `spatial_scale` times which are
those of the input; as a LoDTensor they say which image each is of.
"""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import check_variables, op
from refluid.core.whole import is_whole
from refluid.ir.variable import Variable


def _pool(
    op_type: str,
    inputs: dict[str, Variable | None],
    attrs: dict[str, object],
    name: str | None = None,
    more: dict[str, str] | None = None,
) -> Variable:
    return op(op_type, inputs, attrs, {"Out": None, **(more or {})}, name=name)[0]


def _window(
    where: str, pooled_height: int, pooled_width: int, spatial_scale: float
) -> dict[str, object]:
    """The attributes of a window; TypeError and ValueError for what is none."""
    for name, value in (("pooled_height", pooled_height), ("pooled_width", pooled_width)):
        if not is_whole(value):
            raise TypeError(f"{where}: {name} must be a whole number, not {value!r}")
        if value < 1:
            raise ValueError(f"{where}: {name} must be positive, not {value}")
    if not isinstance(spatial_scale, float | int):
        raise TypeError(f"{where}: spatial_scale must be a number, not {spatial_scale!r}")
    return {
        "pooled_height": pooled_height,
        "pooled_width": pooled_width,
        "spatial_scale": float(spatial_scale),
    }


def roi_pool(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_lod: Variable | None = None,
) -> Variable:
    """The largest pixel of each bin of each region.

    rois_lod: int64 offsets of the images' regions, where `rois` has no LoD.
    """
    window = _window("roi_pool", pooled_height, pooled_width, spatial_scale)
    inputs = {"X": input, "ROIs": rois, "RoisLod": rois_lod}
    return _pool("roi_pool", inputs, window, more={"Argmax": "int32"})


def roi_align(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_lod: Variable | None = None,
) -> Variable:
    """The mean of interpolated samples in each bin of each region.

    sampling_ratio: samples along each side of a bin, as many as it has pixels for -1.
    rois_lod: int64 offsets of the images' regions, where `rois` has no LoD.
    """
    window = _window("roi_align", pooled_height, pooled_width, spatial_scale)
    inputs = {"X": input, "ROIs": rois, "RoisLod": rois_lod}
    return _pool("roi_align", inputs, window | {"sampling_ratio": sampling_ratio}, name)


def psroi_pool(
    input: Variable,
    rois: Variable,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
) -> Variable:
    """The mean over each bin of the channels for this bin: (R, output_channels, height, width).

    `input` has output_channels * pooled_height * pooled_width channels.
    """
    window = _window("psroi_pool", pooled_height, pooled_width, spatial_scale)
    if not is_whole(output_channels):
        raise TypeError(f"psroi_pool: output_channels must be a number, not {output_channels!r}")
    inputs: dict[str, Variable | None] = {"X": input, "ROIs": rois}
    return _pool("psroi_pool", inputs, window | {"output_channels": output_channels}, name)


def prroi_pool(
    input: Variable,
    rois: Variable,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The exact mean of the interpolated input over each bin; regions have a gradient too.

    batch_roi_nums: int64 (N), the number of regions of each image, where `rois` has no LoD.
    """
    window = _window("prroi_pool", pooled_height, pooled_width, spatial_scale)
    inputs = {"X": input, "ROIs": rois, "BatchRoINums": batch_roi_nums}
    return _pool("prroi_pool", inputs, window, name)


def roi_perspective_transform(
    input: Variable,
    rois: Variable,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Regions of four corners (R, 8), clockwise from the top left one, as upright rectangles.

    Returns these (R, C, height, width), a mask (R, 1, height, width), int32, of what lies in the
    region, and the projections (R, 9).
    """
    kinds = {
        "Out": input.dtype,
        "Mask": "int32",
        "TransformMatrix": input.dtype,
        "Out2InIdx": "int32",
        "Out2InWeights": input.dtype,
    }
    attrs = {
        "transformed_height": transformed_height,
        "transformed_width": transformed_width,
        "spatial_scale": spatial_scale,
    }
    inputs = {"X": input, "ROIs": rois}
    out, mask, matrix, *_ = op("roi_perspective_transform", inputs, attrs, kinds, name=name)
    return out, mask, matrix


def deformable_roi_pooling(
    input: Variable,
    rois: Variable,
    trans: Variable,
    no_trans: bool = False,
    spatial_scale: float = 1.0,
    group_size: Sequence[int] = (1, 1),
    pooled_height: int = 1,
    pooled_width: int = 1,
    part_size: Sequence[int] | None = None,
    sample_per_part: int = 1,
    trans_std: float = 0.1,
    position_sensitive: bool = False,
    name: str | None = None,
) -> Variable:
    """The mean of samples in each bin of each region, the bins moved by `trans`.

    trans (R, 2 * classes, part height, part width): shares of the region, times `trans_std`.
    position_sensitive: each bin takes its own channels, so that there are
    C / (pooled_height * pooled_width) in the result. part_size: height and width of `trans`,
    that of the result when not given. TypeError and ValueError for sizes that are none.
    """
    where = "deformable_roi_pooling"
    window = _window(where, pooled_height, pooled_width, spatial_scale)
    parts = [pooled_height, pooled_width] if part_size is None else part_size
    for label, size in (("group_size", group_size), ("part_size", parts)):
        if not isinstance(size, list | tuple) or len(size) != 2:
            raise ValueError(f"{where}: {label} must be (height, width), not {size!r}")
    bins = pooled_height * pooled_width if position_sensitive else 1
    inputs = {"Input": input, "ROIs": rois, "Trans": trans}
    check_variables(where, inputs)
    attrs = {
        "no_trans": no_trans,
        "output_dim": input.shape[1] // bins,
        "group_size": list(group_size),
        "part_size": list(parts),
        "sample_per_part": sample_per_part,
        "trans_std": trans_std,
    }
    makes = {"Output": input.dtype, "TopCount": "int32"}
    return op("deformable_psroi_pooling", inputs, window | attrs, makes, name=name)[0]
