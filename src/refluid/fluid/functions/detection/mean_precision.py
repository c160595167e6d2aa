"""detection_map: mean average precision of detections."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable

__all__ = ["detection_map"]

_OUT_STATES = {
    "AccumPosCount": VarType.INT32,
    "AccumTruePos": VarType.FP32,
    "AccumFalsePos": VarType.FP32,
}
_IN_STATES = ("PosCount", "TruePos", "FalsePos")


def detection_map(
    detect_res: Variable,
    label: Variable,
    class_num: int,
    background_label: int = 0,
    overlap_threshold: float = 0.3,
    evaluate_difficult: bool = True,
    has_state: Variable | None = None,
    input_states: Sequence[Variable] | None = None,
    out_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> Variable:
    """Mean average precision, float32 (1), of the batch and of what was counted before.

    detect_res: label, score, box (rows, 6); label: label, box (rows, 5) or label, difficult, box
    (rows, 6); both sequences per image, boxes in parts of the image. input_states, out_states:
    the counts of boxes, and tables of true and false detections; those read count where has_state,
    int32 (1), is not 0. ap_version: 'integral' or '11point'.
    """
    inputs = {"Label": label, "DetectRes": detect_res}
    if has_state is not None:
        inputs["HasState"] = has_state
    inputs |= dict(zip(_IN_STATES, input_states or (), strict=False))
    attrs = {
        "overlap_threshold": overlap_threshold,
        "evaluate_difficult": evaluate_difficult,
        "ap_type": ap_version,
        "class_num": class_num,
        "background_label": background_label,
    }
    states = zip(_OUT_STATES, out_states or _OUT_STATES.values(), strict=True)
    return op("detection_map", inputs, attrs, {"MAP": VarType.FP32, **dict(states)})[0]
