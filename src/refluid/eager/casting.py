"""Operators that run at once take their inputs in half precision, or in float32, as they should."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of, find
from refluid.passes.mixed_precision import HALVES, Classify, registered_class, wants_half

# Half unless one of its inputs, parameters too, is float32.
AGREE = "agree"
_LISTS = (list, tuple)
_FLOATS = {VarType.FP32, *HALVES}


class Casts:
    """Gives an operator's inputs in the element types that it is to compute with.

    half: which is half. classify: operator type -> precision class.
    """

    def __init__(self, half: VarType, classify: Classify = registered_class) -> None:
        self.half, self._classify = half, classify

    def __call__(self, type: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of an operator, by slot, cast where they must be."""
        kept = _kept(type)
        if kept is None:
            return inputs
        given = [
            one
            for slot, several in inputs.items()
            if slot not in kept
            for one in (several if several.__class__ in _LISTS else (several,))
            if isinstance(one, Variable)
        ]
        kinds = {one.dtype for one in given}
        if VarType.FP64 in kinds or not kinds & _FLOATS:
            return inputs
        wanted = self.half if self._is_half(type, given) else VarType.FP32
        if not kept and kinds & _FLOATS == {wanted}:
            return inputs
        return {
            slot: _cast(several, VarType.FP32 if slot in kept else wanted)
            for slot, several in inputs.items()
        }

    def _is_half(self, type: str, given: Iterable[Variable]) -> bool:
        kind = self._classify(type)
        if kind == AGREE:
            return all(one.dtype in HALVES for one in given if one.dtype in _FLOATS)
        return wants_half(kind, given)


@cache
def _kept(type: str) -> frozenset[str] | None:
    """The slots of an operator that are float32 always; None where all stay as they are."""
    definition = find(type)
    if definition is None or facts_of(type).casts:
        return None
    kept = frozenset(facts_of(type).full_precision)
    return kept if kept.issuperset(definition.mutates.values()) else None


def _cast(given: Any, wanted: VarType) -> Any:
    if isinstance(given, _LISTS):
        return [_cast(one, wanted) for one in given]
    if not isinstance(given, Variable) or given.dtype not in _FLOATS - {wanted}:
        return given
    attrs = {"in_dtype": int(given.dtype), "out_dtype": int(wanted)}
    return op("cast", {"X": [given]}, attrs, dtype=wanted)
