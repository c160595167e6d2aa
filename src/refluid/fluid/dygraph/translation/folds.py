"""`any`, `all`, `max`, `min` and `sum` of tensors, which only the program can decide or add up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from refluid.fluid.dygraph.translation.branches import branch
from refluid.fluid.dygraph.translation.conditions import as_bool, scalar
from refluid.fluid.dygraph.translation.declaring import declaring
from refluid.fluid.dygraph.translation.values import (
    StatementState,
    TensorArray,
    Unset,
    is_tensor,
    static,
)
from refluid.fluid.functions.math.elementwise import logical_and, logical_or
from refluid.fluid.functions.math.reduction import reduce_sum
from refluid.ir import overloads
from refluid.ir.variable import Variable


def chosen(test: Variable, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`one() if test else other()`, for a tensor."""
    name = "(conditional expression)"
    found: list[Any] = [Unset(name)]

    def put(values: tuple[Any, ...]) -> None:
        found[0] = values[0]

    state = StatementState(lambda: (found[0],), put, (name,))
    branch(test, lambda: put((one(),)), lambda: put((other(),)), state)
    return found[0]


def any_of(values: Iterable[Any]) -> Any:
    """`any(values)`; nothing is asked for after a value that Python knows to be true."""
    return _decided(values, True, logical_or)


def all_of(values: Iterable[Any]) -> Any:
    """`all(values)`; nothing is asked for after a value that Python knows to be false."""
    return _decided(values, False, logical_and)


def _decided(values: Iterable[Any], end: bool, join: Callable[[Any, Any], Any]) -> Any:
    """What the values give together, where one that is `end` decides for all."""
    found: Any = not end
    for one in values:
        value = scalar(one)
        if is_tensor(value):
            found = join(found, value) if is_tensor(found) else value
        elif bool(value) is end:
            return join(found, as_bool(end)) if is_tensor(found) else end
    return found


def extreme(function: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`max` or `min`, of which the first of equal values is the result."""

    def find(*values: Any, key: Callable[[Any], Any] | None = None, **options: Any) -> Any:
        given = list(values[0]) if len(values) == 1 else [*values]
        asked = given if key is None else [key(one) for one in given]
        if not any(is_tensor(static(one)) for one in asked):
            return function(given, key=key, **options)
        best, measure = given[0], asked[0]
        for one, its in zip(given[1:], asked[1:], strict=True):
            test = scalar(better(its, measure))
            best = _either_of(test, one, best)
            measure = best if key is None else _either_of(test, its, measure)
        return best

    return find


def _either_of(test: Any, one: Any, other: Any) -> Any:
    if not is_tensor(test):
        return one if test else other
    return chosen(test, lambda: one, lambda: other)


def total(values: Any, start: Any = 0) -> Any:
    """`sum(values, start)`."""
    if not isinstance(values, TensorArray):
        return sum(values, start)
    return reduce_sum(values.joined(0, stack=True), dim=[0]) + start


def _truth(var: Any) -> bool:
    """Whether a variable counts as true. TypeError while a function becomes a program.

    To refluid's own functions one counts that is there: `total or create_tensor("int64")`.
    """
    if declaring() is None:
        return True
    asks = sys._getframe(2).f_globals.get("__name__", "")
    if asks.partition(".")[0] == __name__.partition(".")[0]:
        return True
    raise TypeError(
        f"whether {var.name!r} is true is known only when the program runs, and Python asks for it "
        "now: for a comprehension's `if`, for `in`, sorted, filter, or to compare lists. Write it "
        "by `if` in a loop, or compute it with tensors (layers.where, layers.argsort)"
    )


overloads.provide_truth(_truth)
