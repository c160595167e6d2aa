"""Detections: the boxes left after those that overlap better ones are gone.

They are rows of label, score and box, a sequence per image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.detection.boxes import box_coder
from refluid.fluid.functions.nn.activation import softmax
from refluid.fluid.functions.tensor.shaping import transpose
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = [
    "detection_output",
    "locality_aware_nms",
    "matrix_nms",
    "multiclass_nms",
]


_ATTRIBUTES = (
    "background_label",
    "score_threshold",
    "nms_top_k",
    "nms_threshold",
    "nms_eta",
    "keep_top_k",
    "normalized",
)


def attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's attributes among the arguments of a layer."""
    return {name: given[name] for name in _ATTRIBUTES if name in given}


def detect(
    helper: LayerHelper,
    op_type: str,
    bboxes: Variable,
    scores: Variable,
    attrs: dict[str, Any],
    indexed: bool,
) -> tuple[Variable, ...]:
    """The detections, and if `indexed` the indices of their boxes."""
    kinds = {"Out": bboxes.dtype} | ({"Index": VarType.INT64} if indexed else {})
    inputs = {"BBoxes": bboxes, "Scores": scores}
    return op(op_type, inputs, attrs, kinds, stop_gradient=True, layer=helper)


def multiclass_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    name: str | None = None,
) -> Variable:
    """Detections (rows, 6 or more), by label; one row [-1] where no image has any.

    bboxes (N, M, 4) and scores (N, classes, M), or (rows, classes, 4) and (rows, classes) with a
    sequence of rows per image; 8, 16, 24 or 32 numbers instead of 4 are polygons. Per class but
    `background_label`: the `nms_top_k` boxes of the best scores above `score_threshold`, of
    these what doesn't overlap a better one by more than `nms_threshold` (times `nms_eta` for
    each found, while above 0.5). Of all classes the best `keep_top_k`; -1 for no limit.
    """
    attrs = attributes(locals())
    helper = LayerHelper("multiclass_nms", name=name)
    return detect(helper, "multiclass_nms", bboxes, scores, attrs, False)[0]


def locality_aware_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
    name: str | None = None,
) -> Variable:
    """`multiclass_nms` of bboxes (N, M, 4 or more), scores (N, classes, M) after a merger.

    A box that overlaps the one before it by more than `nms_threshold` is averaged with it,
    weighted by their scores, which add up.
    """
    attrs = attributes(locals())
    helper = LayerHelper("locality_aware_nms", name=name)
    return detect(helper, "locality_aware_nms", bboxes, scores, attrs, False)[0]


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
    name: str | None = None,
) -> Any:
    """Detections (rows, 6), the best first; if `return_index` the indices of their boxes too.

    bboxes (N, M, 4), scores (N, classes, M). Per class but `background_label`, the scores of the
    best `nms_top_k` boxes above `score_threshold` sink with their overlap with better ones,
    linearly or as a Gaussian of it. Of those still above `post_threshold` the best `keep_top_k`.
    """
    attrs = attributes(locals()) | {
        "post_threshold": post_threshold,
        "use_gaussian": use_gaussian,
        "gaussian_sigma": gaussian_sigma,
    }
    helper = LayerHelper("matrix_nms", name=name)
    out, index = detect(helper, "matrix_nms", bboxes, scores, attrs, True)
    return (out, index) if return_index else out


def detection_output(
    loc: Variable,
    scores: Variable,
    prior_box: Variable,
    prior_box_var: Variable,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
    return_index: bool = False,
) -> Any:
    """`multiclass_nms` of what SSD predicts; if `return_index` the indices of the boxes too.

    loc: differences (N, M, 4) from prior_box (M, 4) with variances (M, 4); scores: (N, M,
    classes), before the softmax.
    """
    attrs = attributes(locals())
    helper = LayerHelper("detection_output")
    decoded = box_coder(prior_box, prior_box_var, loc, code_type="decode_center_size")
    likely = transpose(softmax(scores), perm=[0, 2, 1])
    likely.stop_gradient = True
    op_type = "multiclass_nms2" if return_index else "multiclass_nms"
    found = detect(helper, op_type, decoded, likely, attrs, return_index)
    return found if return_index else found[0]
