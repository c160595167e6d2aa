"""`auto_cast`: operators that run at once take their inputs in half precision where they may."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.eager import current
from refluid.ir.variable import Variable
from refluid.ops.registry import facts_of, find
from refluid.paddle.amp.lists import AGREE, LEVELS, Classify, classifier
from refluid.paddle.framework.devices import get_device
from refluid.passes.mixed_precision import HALVES, wants_half

_log = logging.getLogger("refluid")
_LISTS = (list, tuple)
_FLOATS = {VarType.FP32, *HALVES}


def is_float16_supported(device: str | None = None) -> bool:
    """Whether float16 is computed with on a device: on GPUs."""
    return (_device() if device is None else device).startswith("gpu")


def _device() -> str:
    backend = current()
    return get_device() if backend is None else str(backend.place.device).replace("cuda", "gpu")


def is_bfloat16_supported(device: str | None = None) -> bool:
    """Whether bfloat16 is computed with on a device: on all."""
    return True


def half_here(dtype: str) -> VarType:
    """The element type that is meant by a half one; on CPUs float16 is bfloat16, as in programs."""
    if dtype not in ("float16", "bfloat16"):
        raise ValueError("If enable amp, dtype should be 'float16' or 'bfloat16'.")
    if dtype == "float16" and not is_float16_supported():
        _say_bfloat16()
        return VarType.BF16
    return as_dtype(dtype)


@cache
def _say_bfloat16() -> None:
    _log.warning("mixed precision computes in bfloat16 here: the CPU has no fast float16 kernels")


class Casts:
    """Gives an operator's inputs in the element types that it is to compute with."""

    def __init__(self, half: VarType, classify: Classify) -> None:
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


@contextmanager
def auto_cast(
    enable: bool = True,
    custom_white_list: Iterable[str] | None = None,
    custom_black_list: Iterable[str] | None = None,
    level: str = "O1",
    dtype: str = "float16",
    use_promote: bool = True,
) -> Iterator[None]:
    """Operators within the block compute in half precision where that is fast and safe.

    level: `O1`: operators of the white list always do, those that only move or scale elements
    where they are given half ones, all others are float32. `O2`, for networks that `decorate` has
    made half: all but the black list do unless an input is float32 (`use_promote`). `OD`: only the
    white list. `O0`: none. dtype: `float16` or `bfloat16`.
    custom_white_list, custom_black_list: operators that always do, or never.

    Raises ValueError for another level or type, for overlapping lists, and in programs.
    """
    if level not in LEVELS:
        raise ValueError("level should be O0, OD, O1 or O2.")
    if not enable:
        with casting_by(None):
            yield
        return
    half = half_here(dtype)
    classify = classifier(level, custom_white_list, custom_black_list, use_promote)
    with casting_by(None if level == "O0" else Casts(half, classify)):
        yield


@contextmanager
def casting_by(casts: Casts | None) -> Iterator[None]:
    """Operators within cast as it says; None: not at all. ValueError in programs."""
    backend = current()
    if backend is None:
        raise ValueError(
            "paddle.amp.auto_cast casts what runs at once; a program is decorated by "
            "paddle.static.amp.decorate"
        )
    former, backend.casting = backend.casting, casts
    try:
        yield
    finally:
        backend.casting = former
