"""Which operators compute in half precision, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from refluid.eager.casting import AGREE
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from refluid.ops.registry import find, operators
from refluid.passes.mixed_precision import FAST, FOLLOW, KEEP, PROMOTE, Classify, registered_class

LEVELS = ("O0", "OD", "O1", "O2")


def _ours(given: Iterable[str] | None) -> set[str]:
    """Names of operators, those that Paddle 2 added `_v2` to also as they were before."""
    found = set(given or ())
    found |= {one.removesuffix("_v2") for one in found if find(one.removesuffix("_v2"))}
    if {"matmul", "mul"} & found:
        found |= {"fused_gemm_epilogue", "mul", "matmul"}  # what `linear` is here
    return found


def classifier(
    level: str, white: Iterable[str] | None, black: Iterable[str] | None, promotes: bool
) -> Classify:
    """Operator type -> precision class. ValueError where the lists overlap.

    promotes: whether at O2 one float32 input makes an operator float32.
    """
    if set(white or ()) & set(black or ()):
        raise ValueError("Custom white list overlap custom black list")
    own = AutoMixedPrecisionLists(_ours(white), _ours(black) - set(white or ()))
    chosen, refused = _ours(white), _ours(black)

    def asked(op_type: str) -> str | None:
        return FAST if op_type in chosen else KEEP if op_type in refused else None

    def of_level_o1(op_type: str) -> str:
        return asked(op_type) or own.classify(op_type)

    def default(op_type: str) -> str:
        return asked(op_type) or (FAST if registered_class(op_type) == FAST else KEEP)

    def of_level_o2(op_type: str) -> str:
        kind = asked(op_type) or registered_class(op_type)
        rest = AGREE if promotes else FAST
        return rest if kind in (FOLLOW, PROMOTE) else kind

    table = {"O0": lambda _: KEEP, "O1": of_level_o1, "OD": default, "O2": of_level_o2}
    return cache(table[level])


def _of_kind(level: str, kind: str) -> Iterator[str]:
    classify = classifier(level, None, None, True)
    return (one.type for one in operators() if classify(one.type) == kind)


def _listed(kind: str) -> dict[str, dict[str, set[str]]]:
    levels = {level: set(_of_kind(level, kind)) for level in LEVELS[1:]}
    return {"float16": levels, "bfloat16": {level: set(one) for level, one in levels.items()}}


def white_list() -> dict[str, dict[str, set[str]]]:
    """Element type -> level -> the operators that compute in it whatever they are given."""
    return _listed(FAST)


def black_list() -> dict[str, dict[str, set[str]]]:
    """Element type -> level -> the operators that compute in float32."""
    return _listed(KEEP)
