"""multiclass_nms2: `fluid.layers.multiclass_nms` that says which boxes it took."""

from __future__ import annotations

from typing import Any

from refluid.fluid.functions.detection.nms import attributes, detect
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = ["multiclass_nms2"]


def multiclass_nms2(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    return_index: bool = False,
    name: str | None = None,
) -> Any:
    """Detections as of `fluid.layers.multiclass_nms`, none where there are none.

    return_index: also the index (rows, 1) of each detection's box among the boxes of all images.
    """
    attrs = attributes(locals())
    helper = LayerHelper("multiclass_nms2", name=name)
    out, index = detect(helper, "multiclass_nms2", bboxes, scores, attrs, True)
    return (out, index) if return_index else out
