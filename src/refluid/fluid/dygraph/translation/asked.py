"""What translated functions ask: each method stands for a construct of Python's.

`refluid.translate` writes the questions. Values that are known are answered as Python would;
tensors of a program that is being built append control flow to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from refluid.fluid.dygraph.translation import loops
from refluid.fluid.dygraph.translation.branches import branch
from refluid.fluid.dygraph.translation.callees import callee
from refluid.fluid.dygraph.translation.checks import check
from refluid.fluid.dygraph.translation.conditions import both, either, opposite, scalar
from refluid.fluid.dygraph.translation.counting import Counted, counted
from refluid.fluid.dygraph.translation.declaring import declaring
from refluid.fluid.dygraph.translation.folds import chosen
from refluid.fluid.dygraph.translation.structures import is_structure, parts_of
from refluid.fluid.dygraph.translation.values import (
    NOTHING,
    StatementState,
    TensorArray,
    Unset,
    is_tensor,
    static,
)
from refluid.fluid.functions.tensor.shaping import shape as shape_of


class ControlAnswers:
    """The answers."""

    both, either = staticmethod(both), staticmethod(either)
    check = staticmethod(check)
    repeat, each = staticmethod(loops.repeat), staticmethod(loops.each)

    # -- variables ----------------------------------------------------------------

    def unset(self, name: str) -> Unset:
        """A variable before it has a value."""
        return Unset(name)

    def nothing(self) -> Any:
        """What the function will return, before it came to a `return`."""
        return NOTHING

    def result(self, value: Any) -> Any:
        """What the function returns. UnboundLocalError for what no program can."""
        _require(value)
        return None if value is NOTHING else value

    def state(
        self,
        get: Callable[[], tuple[Any, ...]],
        put: Callable[[tuple[Any, ...]], None] | None,
        names: tuple[str, ...] = (),
    ) -> StatementState:
        """All that a statement changes."""
        return StatementState(get, put, names)

    def look(self, value: Callable[[], Any], name: str) -> Any:
        """An attribute, or a variable from elsewhere, which needn't exist."""
        try:
            return value()
        except (AttributeError, NameError):
            return Unset(name)

    def put(self, owner: Callable[[], Any], name: str, value: Any) -> None:
        """Sets an attribute, where there is something to set and somewhere to."""
        if isinstance(value, Unset) and not value._reason:
            return
        try:
            holder = owner()
        except (AttributeError, NameError):
            return
        if getattr(holder, name, None) is not value:
            setattr(holder, name, value)

    # -- statements and expressions -------------------------------------------------

    def branch(
        self,
        test: Any,
        then: Callable[[], None],
        otherwise: Callable[[], None],
        state: StatementState,
    ) -> None:
        """`if`."""
        test = self._test(test)
        if is_tensor(test):
            branch(test, then, otherwise, state)
        elif test:
            then()
        else:
            otherwise()

    def choose(self, test: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`one if test else other`."""
        test = self._test(test)
        if not is_tensor(test):
            return one() if test else other()
        return self.result(chosen(test, one, other))

    def opposite(self, value: Any) -> Any:
        """`not value`."""
        return opposite(value)

    def callee(self, function: Any) -> Any:
        """What is called for `function`."""
        return callee(function, self)

    def chain(
        self,
        left: Any,
        operands: Sequence[Callable[[], Any]],
        tests: Sequence[Callable[[Any, Any], Any]],
    ) -> Any:
        """`left < a <= b`."""
        right = operands[0]()
        found = tests[0](left, right)
        if len(tests) == 1:
            return found
        return both(lambda: found, lambda: self.chain(right, operands[1:], tests[1:]))

    def shape(self, value: Any) -> Any:
        """`value.shape`; sizes that are known only when the program runs are tensors."""
        value = static(value)
        if not is_tensor(value) or declaring() is None:
            return value.shape
        known = list(value.shape)
        if all(size >= 0 for size in known):
            return known
        sizes = shape_of(value)
        return [sizes[axis] if size < 0 else size for axis, size in enumerate(known)]

    def elements(self, values: Any) -> Iterator[Any] | Any:
        """What a comprehension goes through; a tensor is taken apart."""
        found = counted(static(values))
        if not isinstance(found, Counted):
            return values
        if isinstance(values, TensorArray) or is_tensor(found.size) or is_tensor(found.start):
            raise TypeError(
                "a comprehension can't go through tensors whose number only the program knows; "
                "write a for loop that appends to a list"
            )
        return (found.element(place) for place in range(found.start, found.size, found.step))

    def _test(self, value: Any) -> Any:
        return scalar(value) if declaring() is not None else value


def _require(value: Any) -> None:
    if isinstance(value, Unset):
        value._fail()
    if is_structure(value):
        for one in parts_of(value):
            _require(one)
