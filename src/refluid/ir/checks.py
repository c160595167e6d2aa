"""What attributes and inputs of an operator may be, as data beside their types.

    epsilon: Annotated[float, between(0.0, 0.001)] = 1e-5
    X: Annotated[Tensor, rank(4, 5)]

An operator is checked when a program is given it; docs/operators.md lists what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refluid.core.errors import EnforceNotMet
from refluid.ir import schema
from refluid.ir.attributes import float32

if TYPE_CHECKING:
    from refluid.ir.operator import Operator


@dataclass(frozen=True)
class Check:
    """A condition on the value of an attribute or the shape of an input, and the words for it."""

    says: str
    holds: Callable[[Any], bool]


def between(low: float, high: float) -> Check:
    """A number from `low` to `high`, both included, in single precision."""
    return Check(
        f"from {low:g} to {high:g}", lambda value: float32(low) <= float32(value) <= float32(high)
    )


def at_least(low: float) -> Check:
    """A number that is not below `low`."""
    return Check(f"at least {low:g}", lambda value: bool(value >= low))


def above(low: float) -> Check:
    """A number greater than `low`."""
    return Check(f"greater than {low:g}", lambda value: bool(value > low))


def one_of(*choices: Any) -> Check:
    """One of the values given."""
    return Check("one of " + ", ".join(map(repr, choices)), lambda value: value in choices)


def rank(*ranks: int) -> Check:
    """A shape of so many dimensions."""
    return Check(f"of {' or '.join(map(str, ranks))} dimensions", lambda shape: len(shape) in ranks)


def shaped(*wanted: int | None) -> Check:
    """A shape of these sizes, None for any."""

    def holds(shape: Sequence[int]) -> bool:
        return len(shape) == len(wanted) and all(
            size == want for size, want in zip(shape, wanted, strict=True) if want and size >= 0
        )

    return Check(f"[{', '.join('any' if one is None else str(one) for one in wanted)}]", holds)


def each(check: Check, count: int | None = None) -> Check:
    """A list of values that are all so; `count` of them, if given."""
    number = "" if count is None else f"{count} numbers, "
    return Check(
        f"{number}each {check.says}",
        lambda values: len(values) == (count or len(values)) and all(map(check.holds, values)),
    )


not_empty = Check("not empty", lambda values: len(values) > 0)
odd = Check("odd", lambda value: value % 2 == 1)


def check(op: Operator) -> None:
    """EnforceNotMet where an attribute or the declared shape of an input is out of bounds."""
    found = schema.find(op.type)
    if found is None:
        return
    for name, attribute in found.attributes.items():
        if attribute.checks and name in op.attrs:
            _require(op, f"attribute {name!r}", op.attrs[name], attribute.checks)
    for slot in found.inputs:
        for name in op.input(slot.name) if slot.checks else ():
            var = op.block.find_var_recursive(name)
            if var is not None and var.has_description():
                shape = list(var.shape)
                _require(op, f"the shape of input {slot.name} ({name})", shape, slot.checks)


def _require(op: Operator, what: str, value: Any, checks: Sequence[Check]) -> None:
    for one in checks:
        if not one.holds(value):
            where = op.made_at
            raise EnforceNotMet(
                f"operator {op.title}: {what} has to be {one.says}, but it is {value!r}\n{where}"
            )
