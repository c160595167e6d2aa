"""Boxes of detectors: priors, codes, what is predicted, and which stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.detection import boxes as fluid
from refluid.fluid.functions.detection import priors, yolo
from refluid.ir.variable import Variable


def box_coder(
    prior_box: Variable,
    prior_box_var: Variable | Sequence[float] | None,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    name: str | None = None,
) -> Variable:
    """As `fluid.layers.box_coder`."""
    given = (prior_box, prior_box_var, target_box, code_type, box_normalized)
    return fluid.box_coder(*given, name=name, axis=axis)


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Any,
    max_sizes: Any = None,
    aspect_ratios: Any = (1.0,),
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """As `fluid.layers.prior_box`."""
    given = (input, image, min_sizes, max_sizes, aspect_ratios, variance, flip, clip, steps, offset)
    return priors.prior_box(*given, name, min_max_aspect_ratios_order)


def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Variable, Variable]:
    """As `fluid.layers.yolo_box`. NotImplementedError for `iou_aware`: no predicted overlaps."""
    if iou_aware:
        raise NotImplementedError("refluid's yolo_box knows no predicted overlaps: iou_aware")
    given = (x, img_size, anchors, class_num, conf_thresh, downsample_ratio)
    return yolo.yolo_box(*given, clip_bbox, name, scale_x_y)


def yolo_loss(
    x: Variable,
    gt_box: Variable,
    gt_label: Variable,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Variable | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Variable:
    """As `fluid.layers.yolov3_loss`."""
    given = (x, gt_box, gt_label, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio)
    return yolo.yolov3_loss(*given, gt_score, use_label_smooth, name, scale_x_y)


def nms(
    boxes: Variable,
    iou_threshold: float = 0.3,
    scores: Variable | None = None,
    category_idxs: Variable | None = None,
    categories: Sequence[int] | None = None,
    top_k: int | None = None,
) -> Variable:
    """Indices of boxes (M, 4) that overlap no better one by more than `iou_threshold`, best first.

    scores (M): which are better; those that come first unless given. category_idxs (M): boxes
    compete within their category, and `categories` are all there are. top_k: how many stay.
    """
    if category_idxs is not None and (scores is None or categories is None):
        raise ValueError("nms of categories needs scores and categories")
    attrs = {
        "iou_threshold": float(iou_threshold),
        "groups": [int(one) for one in categories or ()],
        "top_k": -1 if top_k is None else int(top_k),
    }
    inputs = {"X": boxes, "Scores": scores, "Groups": category_idxs}
    return op("nms", inputs, attrs, {"Index": VarType.INT64}, stop_gradient=True)[0]


def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    return_rois_num: bool = True,
    name: str | None = None,
) -> Any:
    """(detections (R, 6), how many each image has, indices (R, 1)), as `fluid.layers.matrix_nms`.

    The second is None unless `return_rois_num`, the third unless `return_index`.
    """
    attrs = {
        "score_threshold": score_threshold,
        "post_threshold": post_threshold,
        "nms_top_k": nms_top_k,
        "keep_top_k": keep_top_k,
        "use_gaussian": use_gaussian,
        "gaussian_sigma": gaussian_sigma,
        "background_label": background_label,
        "normalized": normalized,
    }
    makes = {"Out": bboxes.dtype, "Index": VarType.INT32, "RoisNum": VarType.INT32}
    inputs = {"BBoxes": bboxes, "Scores": scores}
    out, index, counts = op("matrix_nms_v2", inputs, attrs, makes, stop_gradient=True, name=name)
    return out, counts if return_rois_num else None, index if return_index else None
