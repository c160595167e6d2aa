"""Variables that a loop over tensors carries from round to round: what they must be, and become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.dygraph.translation.branches import filled, grown
from refluid.fluid.dygraph.translation.numbers import constant, number_type
from refluid.fluid.dygraph.translation.structures import (
    alike,
    is_structure,
    parts_of,
    rebuilt,
    same,
)
from refluid.fluid.dygraph.translation.values import (
    NOTHING,
    TensorArray,
    Unset,
    is_tensor,
)
from refluid.ir.variable import Variable

_NUMBERS = (bool, int, float)


def becomes(name: str, old: Any, new: Any) -> str:
    """What must become of a variable that the body changes.

    `tensor`: it, or parts of it, must be tensors before the loop. `array`. Else empty: it is fine.
    """
    if old is new or isinstance(old, TensorArray):
        return ""
    if alike(old, new):
        pairs = zip(parts_of(old), parts_of(new), strict=True)
        return "tensor" if any(becomes(name, one, two) for one, two in pairs) else ""
    if isinstance(old, Unset) or isinstance(new, Unset):
        return ""
    if is_tensor(old):
        if is_tensor(new) or isinstance(new, _NUMBERS):
            return ""
        raise _refused(name, old, new)
    if same(old, new):
        return ""
    number = isinstance(old, _NUMBERS) and (is_tensor(new) or isinstance(new, _NUMBERS))
    if old is NOTHING or number:
        return "tensor"
    if grown(old, new):
        return "array"
    if is_tensor(new) or is_structure(old):
        raise _refused(name, old, new)
    return ""


def _refused(name: str, old: Any, new: Any) -> TypeError:
    first, second = ("a tensor" if is_tensor(one) else repr(one) for one in (old, new))
    return TypeError(
        f"{name!r} is {first} before a loop over tensors and {second} after a round; only "
        "tensors and numbers can change in such a loop. Give it a tensor of the same type "
        "before the loop"
    )


def promoted(old: Any, new: Any) -> Any:
    """A number as a tensor of the type that the body gives it; parts of structures too."""
    if alike(old, new):
        pairs = zip(parts_of(old), parts_of(new), strict=True)
        return rebuilt(old, [promoted(one, two) for one, two in pairs])
    if old is new or is_tensor(old) or isinstance(old, Unset):
        return old
    if old is NOTHING and is_structure(new):
        return rebuilt(new, [promoted(NOTHING, one) for one in parts_of(new)])
    if old is NOTHING or isinstance(old, _NUMBERS):
        if is_tensor(new):
            dtype = new.dtype
            if isinstance(old, float) and dtype in (VarType.INT32, VarType.INT64):
                dtype = VarType.FP32
            return filled(old, dtype, new)
        if not same(old, new):
            return filled(
                old, number_type(*[one for one in (old, new) if one is not NOTHING]), None
            )
    return old


def pairs_of(new: Any, old: Any, carried: set[int]) -> Iterator[tuple[Variable, Variable]]:
    """Each carried variable with its next value."""
    if alike(new, old):
        for one, other in zip(parts_of(new), parts_of(old), strict=True):
            yield from pairs_of(one, other, carried)
    elif is_tensor(old) and id(old) in carried and new is not old:
        yield (new if is_tensor(new) else constant(new, old.dtype)), old


def end_of(name: str, start: Any, last: Any) -> Any:
    """What a variable is after the loop."""
    if alike(start, last):
        parts = zip(parts_of(start), parts_of(last), strict=True)
        return rebuilt(start, [end_of(name, one, two) for one, two in parts])
    if is_tensor(start) or start is last or same(start, last):
        return start
    if isinstance(start, Unset) and not is_tensor(last):
        return last
    return Unset(name, "a loop over tensors changes it, which only tensors and numbers can")
