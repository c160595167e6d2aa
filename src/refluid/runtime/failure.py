"""Turns an exception inside a plan into Fluid's error: operator, shapes, the user's line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any

import torch

from refluid.analysis.uses import key_of
from refluid.core import flags
from refluid.core.advice import fix_line, in_plain_words
from refluid.core.dtypes import as_dtype, dtype_name, is_known
from refluid.core.errors import EnforceNotMet, EOFException, PeerFailed
from refluid.core.own_frames import is_part
from refluid.feed.errors import ReaderFailed
from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of, find
from refluid.runtime.messages import KernelFailed, no_class, no_row, not_initialized
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Step
from refluid.runtime.trees import Known, Name, leaves

_MOST_INPUTS = 5
_IDS = (torch.int32, torch.int64)
# What Python and torch raise where they are given None, or a name was never set.
_OF_NONE = (AttributeError, NameError, TypeError)


def explain(
    error: Exception,
    filename: str,
    source: PlanSource,
    name_of: Mapping[tuple[int, str], str],
) -> Exception:
    """The error to raise instead of `error`, which came out of the plan in `filename`."""
    origin = source.origin
    found = _plan_frame(error.__traceback__, filename)
    passed_on = isinstance(error, EOFException | ReaderFailed)
    line = None if found is None else _line_of_operator(found.tb_lineno, origin)
    if passed_on or found is None or line is None:
        return error
    if line != found.tb_lineno and isinstance(error, EnforceNotMet):
        return error  # it says what is missing, and no operator is at fault
    if isinstance(error, PeerFailed):
        known = line == found.tb_lineno
        return PeerFailed(f"{error}\n{_exchanged(origin[line])}") if known else error
    op, given = origin[line], _Given(found.tb_frame, name_of)
    if isinstance(error, KernelFailed):
        op = error.op
    if line == found.tb_lineno and isinstance(error, _OF_NONE):
        for slot, name in _needed(op, error):
            if given.lacks(op, name, unset=isinstance(error, NameError)):
                return EnforceNotMet(not_initialized(op, slot, name))
    reason = (
        _outside(op, given, source.lines[found.tb_lineno]) or no_class(op, str(error))
        if isinstance(error, IndexError | RuntimeError)
        else None
    )
    level = int(flags.value("call_stack_level"))
    where, inside = op.made_at, _inside(found.tb_next, level)
    inputs = list(given.described(op))
    if level < 2 and len(inputs) > _MOST_INPUTS:
        inputs[_MOST_INPUTS:] = [f"  and {len(inputs) - _MOST_INPUTS} more"]
    return EnforceNotMet(
        f"operator {op.title} failed: {reason or in_plain_words(error)}\n"
        + "\n".join(inputs)
        + (f"\nIt was made here:\n{where}" if where else "")
        + (f"\nIt failed here:\n{inside}" if inside else "")
        + fix_line(reason or str(error))
        + f"\n  [operator < {op.title} > error]"
    )


def _exchanged(op: Operator) -> str:
    """What an operator exchanges, of many values the first and the last."""
    names = op.input_arg_names
    shown = names if len(names) <= _MOST_INPUTS else [names[0], "..", names[-1]]
    buckets = [one for one in op.block.ops if _sums_gradients(one)]
    which = f" (bucket {buckets.index(op) + 1} of {len(buckets)})" if op in buckets else ""
    return f"operator {op.title}{which} exchanged {len(names)} values: {', '.join(shown)}"


def _sums_gradients(op: Operator) -> bool:
    """Whether an operator exchanges a bucket of gradients."""
    definition = find(op.type)
    return bool(op.role & OpRole.BACKWARD) and definition is not None and bool(definition.starting)


def _inside(frames: TracebackType | None, level: int) -> str:
    """Where an operator failed: in the user's own code, if it calls any, or wherever it was."""
    shown = [
        one
        for one in traceback.extract_tb(frames)
        if level > 1 or (level and not is_part(one.filename))
    ]
    return "".join(traceback.format_list(shown)).rstrip()


class _Given:
    """The values of a plan's variables when it failed."""

    def __init__(self, frame: FrameType, name_of: Mapping[tuple[int, str], str]) -> None:
        self._frame, self._values, self._name_of = frame, frame.f_locals, name_of

    def of(self, op: Operator, name: str) -> Any:
        """The value of a variable; None where it has none, or it is no longer held."""
        return self._values.get(self._name_of.get(key_of(op.block, name), ""))

    def lacks(self, op: Operator, name: str, *, unset: bool) -> bool:
        """Whether a variable has no value; unset: also one whose name isn't there."""
        own = self._name_of.get(key_of(op.block, name), "")
        return self._values.get(own) is None and (unset or own in self._values)

    def described(self, op: Operator) -> Iterator[str]:
        """A line for each input."""
        for slot, names in op.inputs.items():
            for name in names:
                own = self._name_of.get(key_of(op.block, name), "")
                held = not own or own in self._values
                what = described(self._values.get(own)) if held else "no longer held"
                yield f"  {slot}({name}): {what}"

    def tensors(self, step: Step) -> list[torch.Tensor]:
        """The tensors that the failing step is given, also where these are no variables'."""
        known = self._frame.f_globals
        values = [
            self._values.get(one, known.get(one))
            for one in leaves(step.values)
            if isinstance(one, Name | Known)
        ]
        return [one for one in values if isinstance(one, torch.Tensor)]


def _needed(op: Operator, error: Exception) -> Iterator[tuple[str, str]]:
    """Slots and variables that the operator can't do without, then others if it met a None."""
    definition = find(op.type)
    optional = {slot.name for slot in definition.inputs if slot.optional} if definition else set()
    met_none = "None" in str(error)
    for slot, names in sorted(op.inputs.items(), key=lambda one: one[0] in optional):
        if slot not in optional or met_none:
            yield from ((slot, name) for name in names if "@" not in name)


def _outside(op: Operator, given: _Given, step: Step) -> str | None:
    """What to say of an operator that looks up rows of a table: the first id that is none."""
    slots = next(iter(facts_of(op.type).rows.items()), ())
    if not slots or not all(map(op.input, slots)):
        return None
    (table, *_), names = map(op.input, slots)
    held = given.of(op, table)
    rows = (held if isinstance(held, torch.Tensor) else op.block.var_recursive(table)).shape[0]
    found = [(name, given.of(op, name)) for name in names]
    for name, one in found + [(names[0], one) for one in given.tensors(step)]:
        if isinstance(one, torch.Tensor) and one.dtype in _IDS and one.device.type == "cpu":
            flat = one.reshape(-1)
            wrong = ((flat < 0) | (flat >= rows)).nonzero()
            if len(wrong):
                place = int(wrong[0])
                return no_row(op, name, int(flat[place]), place, rows)
    return None


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


def described(value: Any) -> str:
    """A value in messages: type of elements and sizes."""
    if isinstance(value, torch.Tensor):
        known = is_known(value.dtype)
        kind = dtype_name(as_dtype(value.dtype)) if known else str(value.dtype)
        return f"{kind}{list(value.shape)}"
    return "not initialized" if value is None else type(value).__name__
