"""The regions that a detector proposes, and what it finds in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import check_variables, op
from refluid.core.dtypes import VarType
from refluid.core.whole import is_whole
from refluid.ir.variable import Variable


def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    im_info: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
    return_rois_num: bool = False,
) -> tuple[Variable, ...]:
    """Regions (R, 4) that probably hold something, best first, and scores (R, 1), per image.

    scores (N, A, H, W) and bbox_deltas (N, 4 * A, H, W) refine anchors and variances
    (H, W, A, 4); im_info (N, 3) holds height, width and scale. Of the `pre_nms_top_n` best, those
    smaller than `min_size` and those that overlap a better one by more than `nms_thresh` go.
    return_rois_num: a third result, the number of regions of each image (N).
    """
    inputs = {
        "Scores": scores,
        "BboxDeltas": bbox_deltas,
        "ImInfo": im_info,
        "Anchors": anchors,
        "Variances": variances,
    }
    attrs = {
        "pre_nms_topN": pre_nms_top_n,
        "post_nms_topN": post_nms_top_n,
        "nms_thresh": nms_thresh,
        "min_size": min_size,
        "eta": eta,
    }
    kinds = {"RpnRois": bbox_deltas.dtype, "RpnRoiProbs": scores.dtype, "RpnRoisLod": VarType.INT32}
    found = op("generate_proposals", inputs, attrs, kinds, stop_gradient=True, name=name)
    return found if return_rois_num else found[:2]


def retinanet_detection_output(
    bboxes: Sequence[Variable],
    scores: Sequence[Variable],
    anchors: Sequence[Variable],
    im_info: Variable,
    score_threshold: float = 0.05,
    nms_top_k: int = 1000,
    keep_top_k: int = 100,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
) -> Variable:
    """Detections of a RetinaNet: rows of label, score, x1, y1, x2, y2, per image.

    By level of the pyramid: bboxes (N, M, 4) refine anchors (M, 4); scores (N, M, classes).
    `nms_top_k` are taken per level, `keep_top_k` stay per image.
    """
    _require_lists("retinanet_detection_output", bboxes=bboxes, scores=scores, anchors=anchors)
    return op(
        "retinanet_detection_output",
        {
            "BBoxes": list(bboxes),
            "Scores": list(scores),
            "Anchors": list(anchors),
            "ImInfo": im_info,
        },
        {
            "score_threshold": score_threshold,
            "nms_top_k": nms_top_k,
            "nms_threshold": nms_threshold,
            "keep_top_k": keep_top_k,
            "nms_eta": nms_eta,
        },
        dtype=scores[0].dtype,
        stop_gradient=True,
    )


def _require_lists(where: str, **given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, list | tuple):
            raise TypeError(
                f"{where}: argument {name!r} has to be a list of variables, one a level"
            )


def _levels(where: str, min_level: int, max_level: int) -> int:
    """How many levels there are from the lowest to the highest."""
    for name, level in (("min_level", min_level), ("max_level", max_level)):
        if not is_whole(level):
            raise TypeError(f"{where}: argument {name!r} has to be int, not {level!r}")
    if max_level < min_level:
        raise ValueError(
            f"{where}: max_level has to be at least min_level, but they are {max_level} and "
            f"{min_level}"
        )
    return max_level - min_level + 1


def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    name: str | None = None,
) -> tuple[list[Variable], Variable]:
    """Regions (R, 4) by level of the pyramid, and int32 (R, 1) that puts them in order again.

    A region of area `refer_scale` squared belongs to `refer_level`, one four times as large to
    the next. Regions are sequences per image, before and after.
    """
    check_variables("distribute_fpn_proposals", {"fpn_rois": fpn_rois})
    attrs = {
        "min_level": min_level,
        "max_level": max_level,
        "refer_level": refer_level,
        "refer_scale": refer_scale,
    }
    levels = _levels("distribute_fpn_proposals", min_level, max_level)
    makes = {"MultiFpnRois": [fpn_rois.dtype] * levels, "RestoreIndex": VarType.INT32}
    rois, restore = op("distribute_fpn_proposals", {"FpnRois": fpn_rois}, attrs, makes, name=name)
    return rois, restore  # type: ignore[return-value]


def collect_fpn_proposals(
    multi_rois: Sequence[Variable],
    multi_scores: Sequence[Variable],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
) -> Variable:
    """The `post_nms_top_n` best regions of all levels and images, images kept apart."""
    where = "collect_fpn_proposals"
    _require_lists(where, multi_rois=multi_rois, multi_scores=multi_scores)
    levels = _levels(where, min_level, max_level)
    return op(
        "collect_fpn_proposals",
        {
            "MultiLevelRois": list(multi_rois[:levels]),
            "MultiLevelScores": list(multi_scores[:levels]),
        },
        {"post_nms_topN": post_nms_top_n},
        stop_gradient=True,
        name=name,
    )
