"""Regions of images (R, 4), x1, y1, x2, y2, those of each image after one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.layers import Layer

Sizes = int | Sequence[int]


def _window(output_size: Sizes, spatial_scale: float) -> dict[str, Any]:
    height, width = [output_size] * 2 if isinstance(output_size, int) else output_size
    return {"pooled_height": height, "pooled_width": width, "spatial_scale": float(spatial_scale)}


def roi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Sizes,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The largest pixel of each bin: (R, C, height, width) of x (N, C, H, W).

    boxes_num: int32 (N), how many regions each image has. output_size: bins (height, width).
    """
    counts = op("cast", {"X": boxes_num}, _to_int64(boxes_num), dtype=VarType.INT64)
    ends = op("cumsum", {"X": counts}, {"axis": 0})
    begin = op("fill_constant", {}, {"shape": [1], "value": 0.0, "dtype": 3}, dtype=VarType.INT64)
    offsets = op("concat", {"X": [begin, ends]}, {"axis": 0})
    inputs = {"X": x, "ROIs": boxes, "RoisLod": offsets}
    makes = {"Out": None, "Argmax": VarType.INT32}
    return op("roi_pool", inputs, _window(output_size, spatial_scale), makes, name=name)[0]


def _to_int64(given: Variable) -> dict[str, int]:
    return {"in_dtype": int(given.dtype), "out_dtype": int(VarType.INT64)}


def roi_align(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Sizes,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> Variable:
    """The mean of interpolated samples in each bin; arguments as of `roi_pool`.

    sampling_ratio: samples along each side of a bin, as many as it has pixels for -1. aligned:
    coordinates are of pixels' corners, and regions may be smaller than a pixel.
    """
    attrs = _window(output_size, spatial_scale)
    attrs |= {"sampling_ratio": sampling_ratio, "aligned": aligned}
    return op("roi_align_v2", {"X": x, "ROIs": boxes, "RoisNum": boxes_num}, attrs, name=name)


def psroi_pool(
    x: Variable,
    boxes: Variable,
    boxes_num: Variable,
    output_size: Sizes,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Variable:
    """The mean over each bin of the channels for this bin: (R, C / bins, height, width)."""
    attrs = _window(output_size, spatial_scale)
    attrs["output_channels"] = x.shape[1] // (attrs["pooled_height"] * attrs["pooled_width"])
    return op("psroi_pool_v2", {"X": x, "ROIs": boxes, "RoisNum": boxes_num}, attrs, name=name)


class _Pool(Layer):
    """A pooling of regions, with its bins and its scale."""

    def __init__(self, output_size: Sizes, spatial_scale: float = 1.0) -> None:
        super().__init__()
        self._given = (output_size, spatial_scale)


class RoIPool(_Pool):
    """`roi_pool`."""

    def forward(self, x: Variable, boxes: Variable, boxes_num: Variable) -> Variable:
        """The pooled regions."""
        return roi_pool(x, boxes, boxes_num, *self._given)


class RoIAlign(_Pool):
    """`roi_align`."""

    def forward(
        self, x: Variable, boxes: Variable, boxes_num: Variable, aligned: bool = True
    ) -> Variable:
        """The pooled regions."""
        return roi_align(x, boxes, boxes_num, *self._given, aligned=aligned)


class PSRoIPool(_Pool):
    """`psroi_pool`."""

    def forward(self, x: Variable, boxes: Variable, boxes_num: Variable) -> Variable:
        """The pooled regions."""
        return psroi_pool(x, boxes, boxes_num, *self._given)


def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """Regions by level of the pyramid, int32 (R, 1) that puts them in order again, counts.

    A region of area `refer_scale` squared belongs to `refer_level`, one four times as large to
    the next. pixel_offset: a side is one longer than its coordinates differ. rois_num: how many
    regions each image has; the counts by level are then of images, else None.
    """
    attrs = {
        "min_level": min_level,
        "max_level": max_level,
        "refer_level": refer_level,
        "refer_scale": refer_scale,
        "pixel_offset": pixel_offset,
    }
    count = max_level - min_level + 1
    makes = {
        "MultiFpnRois": [fpn_rois.dtype] * count,
        "RestoreIndex": VarType.INT32,
        "MultiLevelRoisNum": [VarType.INT32] * count,
    }
    inputs = {"FpnRois": fpn_rois, "RoisNum": rois_num}
    rois, restore, counts = op("distribute_fpn_proposals_v2", inputs, attrs, makes, name=name)
    return rois, restore, None if rois_num is None else counts


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    img_size: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable | None]:
    """Regions (R, 4) that probably hold something, their scores (R, 1), how many each image has.

    scores (N, A, H, W) and bbox_deltas (N, 4 * A, H, W) refine anchors and variances
    (H, W, A, 4); img_size (N, 2) holds height and width. Of the `pre_nms_top_n` best, those
    smaller than `min_size` (a pixel at least) and those that overlap a better one by more than
    `nms_thresh` go. The third result is None unless `return_rois_num`.
    """
    inputs = {
        "Scores": scores,
        "BboxDeltas": bbox_deltas,
        "ImShape": img_size,
        "Anchors": anchors,
        "Variances": variances,
    }
    attrs = {
        "pre_nms_topN": pre_nms_top_n,
        "post_nms_topN": post_nms_top_n,
        "nms_thresh": nms_thresh,
        "min_size": min_size,
        "eta": eta,
        "pixel_offset": pixel_offset,
    }
    makes = {"RpnRois": scores.dtype, "RpnRoiProbs": scores.dtype, "RpnRoisNum": VarType.INT32}
    rois, probabilities, counts = op(
        "generate_proposals_v2", inputs, attrs, makes, stop_gradient=True, name=name
    )
    return rois, probabilities, counts if return_rois_num else None
