"""Operators of Fluid's that refluid leaves out, and why: one table for all messages."""

from __future__ import annotations

_REASONS = {
    "it belongs to MKL-DNN's int8 kernels; refluid runs the program that was quantised": (
        "dequantize quantize requantize"
    ),
    "it reads a quantised table whose format is not documented; run the program before its "
    "passes": "dequantize_log lookup_table_dequant",
    "it stands for a part of a program that another inference engine runs; load the program as "
    "it was saved, without that engine": (
        "anakin_engine lite_engine ngraph_engine tensorrt_engine"
    ),
    "it speaks to Baidu's own parameter servers (pslib, BoxPS); use fluid.embedding with "
    "is_sparse or is_distributed": (
        "pull_box_sparse pull_sparse pull_sparse_v2 push_box_sparse push_dense push_sparse "
        "push_sparse_v2"
    ),
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def no_operator(op_type: str) -> str:
    """The message that refluid lacks an operator, with the reason where it is left out."""
    reason = _REASON_OF.get(op_type)
    return f"refluid has no operator {op_type!r}" + (f": {reason}" if reason else "")


def left_out() -> list[str]:
    """The operators that are left out, by name."""
    return sorted(_REASON_OF)
