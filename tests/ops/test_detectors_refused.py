"""What the operators of detectors refuse, in words that name the operator and the user's line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.ops.running import Array, refusal, run_op


def _floats(*shape: int) -> Array:
    return np.random.RandomState(3).rand(*shape).astype("float32")


def _ints(*shape: int, value: int = 0) -> Array:
    return np.full(shape, value, "int32")


def _rows(*lengths: int, width: int = 4) -> Any:
    return _floats(sum(lengths), width), [list(lengths)]


def _kinds(*lengths: int, value: int = 0) -> Any:
    return _ints(sum(lengths), 1, value=value), [list(lengths)]


NMS = {"score_threshold": 0.1, "nms_top_k": 9, "keep_top_k": 9}
SCORES = {"Scores": _floats(2, 3, 5)}
LEVELS = {"min_level": 2, "max_level": 3, "refer_level": 3, "refer_scale": 9}
DECODE = {"code_type": "decode_center_size"}
PRIORS = {"PriorBox": _floats(2, 4), "TargetBox": _floats(3, 4)}
TARGETS = {"X": (_floats(3, 1, 4), [[2, 1]])}
YOLO = {"class_num": 2, "anchors": [10, 13, 16, 30], "anchor_mask": [0, 1]}
MAP = {"X": _floats(2, 14, 3, 3), "GTBox": _floats(2, 3, 4), "GTLabel": _ints(2, 3)}
FOUND = {"class_num": 3}
PROPOSED = {
    "Scores": _floats(2, 1, 3, 3),
    "BboxDeltas": _floats(2, 4, 3, 3),
    "ImInfo": _floats(2, 3),
    "Anchors": _floats(3, 3, 1, 4),
    "Variances": _floats(3, 3, 1, 4),
}
TOP = {"pre_nms_topN": 9, "post_nms_topN": 9, "nms_thresh": 0.5, "min_size": 0.1, "eta": 1.0}
RPN = {
    "Anchor": _floats(5, 4),
    "GtBoxes": _rows(2, 1),
    "IsCrowd": _kinds(2, 1),
    "ImInfo": _floats(2, 3),
}
REGIONS = {
    "RpnRois": _rows(3),
    "GtClasses": _kinds(2, value=1),
    "IsCrowd": _kinds(2),
    "GtBoxes": (np.array([[1, 1, 5, 5], [2, 2, 7, 7]], "float32"), [[2]]),
    "ImInfo": np.array([[9, 9, 1]], "float32"),
}
SAMPLED = {
    "batch_size_per_im": 9,
    "fg_fraction": 0.5,
    "fg_thresh": 0.5,
    "bg_thresh_hi": 0.5,
    "bg_thresh_lo": 0.0,
    "bbox_reg_weights": [0.1, 0.1, 0.2, 0.2],
    "class_nums": 3,
}
MASKS = {
    "ImInfo": np.array([[9, 9, 1]], "float32"),
    "GtClasses": _kinds(1, value=1),
    "IsCrowd": _kinds(1),
    "GtSegms": (_floats(3, 2), [[1], [1], [3]]),
    "Rois": _rows(2),
    "LabelsInt32": _kinds(2, value=1),
}
DRAWN = {"num_classes": 3, "resolution": 4}
FOCAL = {"X": _floats(4, 2), "Label": _ints(4, 1), "FgNum": _ints(2, 1)}
OUTPUT = {"nms_threshold": 0.3, "nms_eta": 1.0} | NMS
PYRAMID = {
    "BBoxes": [_floats(1, 4, 4)],
    "Scores": [_floats(1, 4, 2), _floats(1, 4, 2)],
    "Anchors": [_floats(4, 4)],
    "ImInfo": _floats(1, 3),
}
MOVED = {
    "Input": _floats(1, 2, 5, 5),
    "Offset": _floats(1, 18, 3, 3),
    "Mask": _floats(1, 9, 3, 3),
    "Filter": _floats(4, 2, 3, 3),
}
STEPS = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}
PRIOR = {"Input": _floats(1, 2, 3, 3), "Image": _floats(1, 3, 9, 9)}
LAID = {"min_sizes": [4.0], "aspect_ratios": [1.0], "variances": [0.1, 0.1, 0.2, 0.2]}
DENSE = {
    "fixed_sizes": [4.0],
    "fixed_ratios": [1.0],
    "densities": [2],
    "variances": LAID["variances"],
}
ANCHORS = {"anchor_sizes": [4.0], "variances": LAID["variances"]}
SEVERAL = [_rows(3), _rows(2)]
CASES: list[tuple[str, Mapping[str, Any], Mapping[str, Any], str]] = [
    ("multiclass_nms", SCORES | {"BBoxes": _floats(2, 5, 5)}, NMS, "4, 8, 16, 24 or 32"),
    ("multiclass_nms", SCORES | {"BBoxes": _floats(5, 4)}, NMS, "of 3 dimensions"),
    ("multiclass_nms", {"BBoxes": _floats(2, 3, 4), "Scores": _floats(2)}, NMS, "2 or 3 dim"),
    (
        "multiclass_nms",
        {"BBoxes": (_floats(2, 3, 4), [[2]]), "Scores": (_floats(2, 2), [[2]])},
        NMS,
        "of the same rows and classes",
    ),
    ("matrix_nms", SCORES | {"BBoxes": _floats(2, 5, 8)}, NMS, r"\[any, any, 4\]"),
    ("locality_aware_nms", SCORES | {"BBoxes": _floats(2, 6, 4)}, NMS, "same images and boxes"),
    ("prior_box", PRIOR, LAID | {"max_sizes": [4.0]}, "has to be greater than that of min_sizes"),
    ("prior_box", PRIOR, LAID | {"max_sizes": [9.0, 9.0]}, "as many max_sizes as min_sizes"),
    ("prior_box", PRIOR, LAID | {"aspect_ratios": [2.0, 0.0]}, "'aspect_ratios' has to be each"),
    ("prior_box", PRIOR, LAID | {"variances": [0.1, 0.2]}, "has to be 4 numbers"),
    ("density_prior_box", PRIOR, DENSE | {"densities": [0]}, "'densities' has to be each"),
    ("density_prior_box", PRIOR, DENSE | {"fixed_ratios": [-1.0]}, "'fixed_ratios' has to be"),
    ("density_prior_box", PRIOR, DENSE | {"fixed_sizes": [-1.0]}, "'fixed_sizes' has to be"),
    ("density_prior_box", PRIOR, DENSE | {"densities": [2, 1]}, "as many densities as fixed"),
    (
        "anchor_generator",
        {"Input": PRIOR["Input"]},
        ANCHORS | {"aspect_ratios": [0.0]},
        "'aspect_ratios' has to be each",
    ),
    ("box_coder", PRIORS, {"variance": [0.1, 0.2]}, "has to be no numbers or 4"),
    ("box_coder", PRIORS, DECODE | {"axis": 2}, "one of 0, 1"),
    ("box_coder", PRIORS | {"TargetBox": _floats(3, 5, 4)}, DECODE, "its dimension 1 has to"),
    ("box_coder", PRIORS | {"PriorBoxVar": _floats(3, 4)}, {}, "they must be equal"),
    ("bipartite_match", {"DistMat": _rows(3)}, {"match_type": "best"}, "one of 'bipartite'"),
    ("bipartite_match", {"DistMat": (_floats(3, 4), [[2], [1, 2]])}, {}, "1 level of LoD"),
    ("target_assign", TARGETS | {"MatchIndices": _ints(3, 5)}, {}, "MatchIndices has 3 rows"),
    ("target_assign", TARGETS | {"MatchIndices": _ints(2, 5, value=1)}, {}, "names row 1"),
    ("yolov3_loss", MAP, YOLO | {"anchor_mask": [0, 2]}, "some of the 2 anchors"),
    ("yolov3_loss", MAP | {"GTBox": _floats(1, 3, 4)}, YOLO, "X has 2 rows"),
    ("yolov3_loss", MAP | {"GTLabel": _ints(2, 4)}, YOLO, "GTLabel has shape"),
    ("yolov3_loss", MAP | {"GTScore": _floats(2, 5)}, YOLO, "GTScore has shape"),
    ("detection_map", {"DetectRes": _rows(2, width=5), "Label": _rows(2, width=6)}, FOUND, "Dete"),
    ("detection_map", {"DetectRes": _rows(2, width=6), "Label": _rows(2, width=7)}, FOUND, "diffi"),
    (
        "detection_map",
        {"DetectRes": _rows(2, width=6), "Label": _rows(1, 1, width=6)},
        FOUND,
        "1 i",
    ),
    ("generate_proposals", PROPOSED | {"BboxDeltas": _floats(2, 8, 3, 3)}, TOP, "what Scores need"),
    ("generate_proposals", PROPOSED | {"ImInfo": _floats(1, 3)}, TOP, "Scores has 2 rows"),
    (
        "generate_proposals",
        PROPOSED | {"Variances": _floats(3, 2, 1, 4)},
        TOP,
        "fewer rows than Anch",
    ),
    (
        "rpn_target_assign",
        RPN | {"IsCrowd": _kinds(2, 2)},
        {"rpn_straddle_thresh": 0.0},
        "each box",
    ),
    ("retinanet_target_assign", RPN | {"GtLabels": _kinds(1, 2)}, {}, "GtLabels has"),
    ("generate_proposal_labels", REGIONS | {"GtClasses": _kinds(1)}, SAMPLED, "each box needs one"),
    ("generate_proposal_labels", REGIONS, SAMPLED | {"class_nums": 1}, "class_nums is 1"),
    ("generate_proposal_labels", REGIONS, SAMPLED | {"bbox_reg_weights": [1.0]}, "4 numbers"),
    ("generate_mask_labels", MASKS, DRAWN | {"num_classes": 1}, "num_classes is 1"),
    ("generate_mask_labels", MASKS | {"Rois": _rows(1, 1)}, DRAWN, "Rois describes 2 images"),
    ("generate_mask_labels", MASKS | {"LabelsInt32": _kinds(3)}, DRAWN, "Rois has 2 rows"),
    ("generate_mask_labels", MASKS | {"GtClasses": _kinds(2)}, DRAWN, "objects of GtSegms has 1"),
    ("box_clip", {"Input": _rows(1, 2), "ImInfo": _floats(1, 3)}, {}, "only 1 rows"),
    ("sigmoid_focal_loss", FOCAL, {}, "FgNum has to be one number"),
    ("retinanet_detection_output", PYRAMID, OUTPUT, "there are 1, 2 and 1"),
    ("deformable_conv", MOVED | {"Mask": _floats(1, 8, 3, 3)}, STEPS, "Mask needs 9 channels"),
    ("deformable_conv", MOVED | {"Offset": _floats(1, 18, 5, 5)}, STEPS, r"of Output, \[3, 3\]"),
    ("distribute_fpn_proposals", {"FpnRois": _rows(3)}, LEVELS, "MultiFpnRois has 1 variables"),
    ("distribute_fpn_proposals", {"FpnRois": _rows(3)}, LEVELS | {"refer_scale": 0}, "than 0"),
    (
        "collect_fpn_proposals",
        {"MultiLevelRois": SEVERAL, "MultiLevelScores": [_rows(3, width=1), _rows(2, width=1)]},
        {"post_nms_topN": -1},
        "at least 0",
    ),
    (
        "collect_fpn_proposals",
        {"MultiLevelRois": SEVERAL, "MultiLevelScores": [_rows(3, width=1)]},
        {"post_nms_topN": 9},
        "each level needs both",
    ),
    (
        "collect_fpn_proposals",
        {"MultiLevelRois": SEVERAL, "MultiLevelScores": [_rows(3, width=1), _rows(3, width=1)]},
        {"post_nms_topN": 9},
        "level 1 has 2 rows",
    ),
    (
        "collect_fpn_proposals",
        {"MultiLevelRois": [_rows(3), _rows(1, 1)], "MultiLevelScores": [_rows(3), _rows(1, 1)]},
        {"post_nms_topN": 9},
        r"of \[1, 2\] images",
    ),
]


@pytest.mark.parametrize("op_type, inputs, attrs, says", CASES)
def test_is_refused(
    op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], says: str
) -> None:
    told = refusal(op_type, inputs, attrs, says)
    assert op_type in told and "running.py" in told


def test_where_classes_are_alike_any_class_will_do() -> None:
    agnostic = SAMPLED | {"class_nums": 2, "is_cls_agnostic": True, "use_random": False}
    found = run_op(
        "generate_proposal_labels", REGIONS | {"GtClasses": _kinds(2, value=7)}, agnostic
    )
    assert found["LabelsInt32"].max() == 7 and found["BboxTargets"].shape[1] == 8
