"""Turns an exception inside a plan into Fluid's error: operator, shapes, the user's line."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch

from refluid.analysis.liveness import key_of
from refluid.core import flags
from refluid.core.dtypes import as_dtype, dtype_name
from refluid.core.errors import EnforceNotMet, EOFException, PeerFailed
from refluid.feed.errors import ReaderFailed
from refluid.ir.operator import Operator
from refluid.runtime.messages import not_initialized


def explain(
    error: Exception,
    filename: str,
    origin: Mapping[int, Operator],
    name_of: Mapping[tuple[int, str], str],
) -> Exception:
    """The error to raise instead of `error`, which came out of the plan in `filename`."""
    found = _plan_frame(error.__traceback__, filename)
    passed_on = isinstance(error, EOFException | PeerFailed | ReaderFailed)
    line = None if found is None else _line_of_operator(found.tb_lineno, origin)
    if passed_on or found is None or line is None:
        return error
    if line != found.tb_lineno and isinstance(error, EnforceNotMet):
        return error  # it says what is missing, and no operator is at fault
    op = origin[line]
    values = found.tb_frame.f_locals
    described = []
    for slot, names in op.inputs.items():
        for name in names:
            own = name_of.get(key_of(op.block, name), "")
            if own and own not in values and not isinstance(error, NameError):
                described.append(f"  {slot}({name}): no longer held")
                continue
            value = values.get(own)
            unset = value is None and line == found.tb_lineno and "@" not in name
            if unset and not isinstance(error, EnforceNotMet):
                return EnforceNotMet(not_initialized(op, slot, name))
            described.append(f"  {slot}({name}): {_describe(value)}")
    level = int(flags.value("call_stack_level"))
    where = "\n".join(op.callstack) if level else ""
    inside = "".join(traceback.format_tb(found.tb_next)).rstrip() if level > 1 else ""
    return EnforceNotMet(
        f"operator {op.title} failed: {error}\n"
        + "\n".join(described)
        + (f"\nIt was made here:\n{where}" if where else "")
        + (f"\nIt failed here:\n{inside}" if inside else "")
        + f"\n  [operator < {op.title} > error]"
    )


def _plan_frame(trace: TracebackType | None, filename: str) -> TracebackType | None:
    """The frame of the plan."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            return trace
        trace = trace.tb_next
    return None


def _line_of_operator(line: int, origin: Mapping[int, Operator]) -> int | None:
    """The line itself, or where it only prepares for operators the nearest line of one."""
    return line if line in origin else min(origin, key=lambda one: abs(one - line), default=None)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{dtype_name(as_dtype(value.dtype))}{list(value.shape)}"
    return "not initialized" if value is None else type(value).__name__
