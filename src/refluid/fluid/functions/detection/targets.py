"""What the anchors and regions of a two-stage detector are to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.build import How, op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.tensor.shaping import reshape
from refluid.fluid.functions.tensor.slicing import gather
from refluid.ir.variable import Variable

_ANCHOR_OUTPUTS = {
    "LocationIndex": "int32",
    "ScoreIndex": "int32",
    "TargetLabel": "int32",
    "TargetBBox": None,
    "BBoxInsideWeight": None,
}
_SAMPLED = {
    "RpnRois": "rpn_rois",
    "GtClasses": "gt_classes",
    "IsCrowd": "is_crowd",
    "GtBoxes": "gt_boxes",
    "ImInfo": "im_info",
}
_SAMPLING = (
    "batch_size_per_im",
    "fg_fraction",
    "fg_thresh",
    "bg_thresh_hi",
    "bg_thresh_lo",
    "bbox_reg_weights",
    "class_nums",
    "use_random",
    "is_cls_agnostic",
    "is_cascade_rcnn",
)
_REGION_OUTPUTS = (
    "Rois",
    "LabelsInt32",
    "BboxTargets",
    "BboxInsideWeights",
    "BboxOutsideWeights",
)


def _appended(
    op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], kinds: Mapping[str, Any]
) -> dict[str, Variable]:
    """Appends an operator whose results have no gradient; they are returned by slot.

    kinds: element type by slot, in the order in which the variables are named.
    """
    return dict(zip(kinds, op(op_type, inputs, attrs, kinds, stop_gradient=True), strict=True))


def _learned(
    made: Mapping[str, Variable], scores: Variable, boxes: Variable, classes: int
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """Predictions for the chosen anchors, and the targets."""
    scores = reshape(x=scores, shape=[-1, classes])
    boxes = reshape(x=boxes, shape=[-1, 4])
    return (
        gather(scores, made["ScoreIndex"]),
        gather(boxes, made["LocationIndex"]),
        made["TargetLabel"],
        made["TargetBBox"],
        made["BBoxInsideWeight"],
    )


def rpn_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    is_crowd: Variable,
    im_info: Variable,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """Predictions of a region proposal network to learn from, and their targets.

    bbox_pred (N, M, 4) and cls_logits (N, M, 1) predict for anchor_box (M, 4); gt_boxes (G, 4)
    and is_crowd (G, 1) are sequences per image; im_info (N, 3): height, width, scale. Anchors
    that leave the image by more than `rpn_straddle_thresh` don't take part (a negative one: all
    do). Returns scores (F + B, 1) and moves (F, 4) of the chosen anchors, labels (F + B, 1),
    int32, target moves (F, 4) and their weights (F, 4).
    """
    kinds = {slot: dtype or anchor_box.dtype for slot, dtype in _ANCHOR_OUTPUTS.items()}
    made = _appended(
        "rpn_target_assign",
        {"Anchor": anchor_box, "GtBoxes": gt_boxes, "IsCrowd": is_crowd, "ImInfo": im_info},
        {
            "rpn_batch_size_per_im": rpn_batch_size_per_im,
            "rpn_straddle_thresh": rpn_straddle_thresh,
            "rpn_positive_overlap": rpn_positive_overlap,
            "rpn_negative_overlap": rpn_negative_overlap,
            "rpn_fg_fraction": rpn_fg_fraction,
            "use_random": use_random,
        },
        kinds,
    )
    return _learned(made, cls_logits, bbox_pred, 1)


def retinanet_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: Variable,
    anchor_var: Variable,
    gt_boxes: Variable,
    gt_labels: Variable,
    is_crowd: Variable,
    im_info: Variable,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """Predictions of a RetinaNet to learn from, and their targets.

    As `rpn_target_assign`, with cls_logits (N, M, num_classes) and gt_labels (G, 1) from 1, but
    all foreground and background anchors are taken. The last result, int32 (N, 1), is one more
    than the number of foreground anchors of each image.
    """
    kinds = {slot: dtype or anchor_box.dtype for slot, dtype in _ANCHOR_OUTPUTS.items()}
    made = _appended(
        "retinanet_target_assign",
        {
            "Anchor": anchor_box,
            "GtBoxes": gt_boxes,
            "GtLabels": gt_labels,
            "IsCrowd": is_crowd,
            "ImInfo": im_info,
        },
        {"positive_overlap": positive_overlap, "negative_overlap": negative_overlap},
        kinds | {"ForegroundNumber": VarType.INT32},
    )
    return *_learned(made, cls_logits, bbox_pred, num_classes), made["ForegroundNumber"]


def generate_proposal_labels(
    rpn_rois: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_boxes: Variable,
    im_info: Variable,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    class_nums: int | None = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """Regions to learn from: foreground and background among rpn_rois and the boxes.

    All inputs but im_info (N, 3) are sequences per image. Returns regions (P, 4), their classes
    (P, 1), moves to their boxes, inside and outside weights, (P, 4 * class_nums) each.
    """
    given = locals()
    attrs = {name: given[name] for name in _SAMPLING}
    inputs = {slot: given[name] for slot, name in _SAMPLED.items()}
    kinds = dict.fromkeys(_REGION_OUTPUTS, rpn_rois.dtype) | {"LabelsInt32": gt_classes.dtype}
    attrs["bbox_reg_weights"] = list(bbox_reg_weights)
    how: How = {"stop_gradient": True}
    rois, labels, moves, inside, outside = op(
        "generate_proposal_labels", inputs, attrs, kinds, **how
    )
    return rois, labels, moves, inside, outside


def generate_mask_labels(
    im_info: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_segms: Variable,
    rois: Variable,
    labels_int32: Variable,
    num_classes: int,
    resolution: int,
) -> tuple[Variable, Variable, Variable]:
    """The masks to draw in the foreground regions of `generate_proposal_labels`.

    gt_segms (S, 2): corners of polygons, with three levels of LoD (image, object, polygon).
    Returns the regions (P, 4), their places among `rois` (P, 1), and for each
    num_classes * resolution ** 2 numbers: 0 and 1 for its class, -1 for the others.
    """
    inputs = {
        "ImInfo": im_info,
        "GtClasses": gt_classes,
        "IsCrowd": is_crowd,
        "GtSegms": gt_segms,
        "Rois": rois,
        "LabelsInt32": labels_int32,
    }
    attrs = {"num_classes": num_classes, "resolution": resolution}
    kinds = {"MaskRois": rois.dtype}
    kinds |= dict.fromkeys(("RoiHasMaskInt32", "MaskInt32"), gt_classes.dtype)
    mask_rois, has_mask, masks = op(
        "generate_mask_labels", inputs, attrs, kinds, stop_gradient=True
    )
    return mask_rois, has_mask, masks
