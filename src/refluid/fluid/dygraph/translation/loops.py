"""`while` and `for` on tensors: the body becomes a block that the program runs again and again.

The body is traced in a trial first, to see what it changes. What it changes becomes a variable
of the enclosing block that each round gives its next value; a list it appends to, an array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from refluid.fluid.dygraph.translation.branches import (
    branch,
    set_state,
    static_parts,
    with_array,
)
from refluid.fluid.dygraph.translation.carrying import becomes, end_of, pairs_of, promoted
from refluid.fluid.dygraph.translation.conditions import both, either, opposite, scalar
from refluid.fluid.dygraph.translation.counting import Counted, counted
from refluid.fluid.dygraph.translation.declaring import declaring, tried
from refluid.fluid.dygraph.translation.numbers import constant, copied_number
from refluid.fluid.dygraph.translation.structures import (
    alike,
    copied,
    is_structure,
    parts_of,
    put_back,
    rebuilt,
)
from refluid.fluid.dygraph.translation.values import (
    StatementState,
    TensorArray,
    Unset,
    is_tensor,
    static,
)
from refluid.fluid.functions.control.while_loop import While
from refluid.fluid.functions.tensor.assignment import assign
from refluid.ir.defaults import default_main_program
from refluid.ir.variable import Variable

Stops = Callable[[], tuple[Any, ...]]
_NUMBERS = (bool, int, float)
# So often is the body tried before it is given up: each time more becomes tensors.
_TRIALS = 8


def stopped(stops: Stops) -> Any:
    """Whether one of the flags of a loop holds."""
    found: Any = False
    for one in stops():
        if is_tensor(one):
            found = one if found is False else _either(found, one)
        elif one:
            return True
    return found


def _either(one: Any, other: Any) -> Any:
    return either(lambda: one, lambda: other)


def goes_on(test: Callable[[], Any], stops: Stops) -> Any:
    """Whether a loop runs its body again."""
    ended = stopped(stops)
    if ended is True:
        return False
    return test() if ended is False else both(lambda: opposite(ended), test)


def repeat(
    test: Callable[[], Any], body: Callable[[], None], state: StatementState, stops: Stops
) -> None:
    """`while`: in Python as long as the condition is known, then in the program."""
    while True:
        with tried():
            found = scalar(goes_on(test, stops))
            unknown = is_tensor(found)
        if unknown:
            _TensorLoop(test, body, state, stops).build()
            return
        if not goes_on(test, stops):
            return
        body()


def each(items: Any, body: Callable[[Any], None], state: StatementState, stops: Stops) -> None:
    """`for`: in Python over what Python can go through, in the program over tensors."""
    items = counted(static(items))
    if isinstance(items, Counted):
        _each_counted(items, body, state, stops)
        return
    for one in items:
        ended = stopped(stops)
        if ended is True:
            return
        if ended is False:
            body(one)
        else:
            branch(opposite(ended), partial(body, one), _nothing, state)
        if stopped(stops) is True:
            return


def _nothing() -> None:
    pass


def _each_counted(
    items: Counted, body: Callable[[Any], None], state: StatementState, stops: Stops
) -> None:
    place = [items.start]
    names = ("(the place in the loop)", *state.names)

    def get() -> tuple[Any, ...]:
        return (place[0], *state.get())

    def put(values: tuple[Any, ...]) -> None:
        place[0] = values[0]
        set_state(state, values[1:])

    def test() -> Any:
        if is_tensor(items.step) or items.step > 0:
            return place[0] < items.size
        return place[0] > items.size

    def one() -> None:
        body(items.element(place[0]))
        place[0] = place[0] + items.step

    place[0] = constant(items.start) if not is_tensor(items.start) else items.start
    _TensorLoop(test, one, StatementState(get, put, names), stops).build()


class _TensorLoop:
    """A loop of the program while it is made."""

    def __init__(
        self, test: Callable[[], Any], body: Callable[[], None], state: StatementState, stops: Stops
    ) -> None:
        self.test, self.body, self.state, self.stops = test, body, state, stops
        self.before = tuple(static_parts(one) for one in state.get())
        self.given = state.get()

    def build(self) -> None:
        """Appends the loop, and sets each variable of the state to what the loop leaves."""
        for _ in range(_TRIALS):
            if not self._try():
                break
        else:
            raise TypeError(
                "this loop over tensors changes what its variables are from round to round; give "
                "them tensors of one shape and type before the loop"
            )
        self._append()

    # -- trials -----------------------------------------------------------------

    def _try(self) -> bool:
        """Runs the body without effect; whether something became a tensor or an array by that."""
        with tried():
            set_state(self.state, tuple(copied(one) for one in self.before))
            scalar(goes_on(self.test, self.stops))
            self.body()
            after = tuple(static_parts(one) for one in self.state.get())
            self.after = after
            kinds = [
                becomes(name, old, new)
                for name, old, new in zip(self.state.names, self.before, after, strict=True)
            ]
        set_state(self.state, self.before)
        changed = False
        made = list(self.before)
        for number, kind in enumerate(kinds):
            if kind == "array":
                made = list(with_array(tuple(made), number, self.state))
                changed = True
            elif kind == "tensor":
                made[number] = promoted(made[number], after[number])
                changed = True
        self.before = tuple(made)
        set_state(self.state, self.before)
        return changed

    # -- the loop itself ----------------------------------------------------------

    def _append(self) -> None:
        carried: list[Variable] = []
        start = tuple(
            self._carried(name, old, new, carried)
            for name, old, new in zip(self.state.names, self.before, self.after, strict=True)
        )
        now = declaring()
        if now is not None and now.trying:  # what the variables are is all that is asked
            self._finish(start, self.after)
            return
        set_state(self.state, tuple(copied(one) for one in start))
        condition = _as_bool(goes_on(self.test, self.stops))
        with While(condition).block():
            self.body()
            again = _as_bool(goes_on(self.test, self.stops))
            after = tuple(static_parts(one) for one in self.state.get())
            pairs = [
                pair
                for new, old in zip(after, start, strict=True)
                for pair in pairs_of(new, old, {id(one) for one in carried})
            ]
            # A variable that another one takes over is copied before it is overwritten.
            held = {id(one) for one in carried}
            pairs = [(assign(new) if id(new) in held else new, old) for new, old in pairs]
            for new, old in pairs:
                assign(new, old)
            assign(again, condition)
        self._finish(start, after)

    def _finish(self, start: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Sets the state to what the loop leaves."""
        ends = [
            end_of(name, first, last)
            for name, first, last in zip(self.state.names, start, after, strict=True)
        ]
        values = [put_back(old, new) for old, new in zip(self.given, ends, strict=True)]
        set_state(self.state, tuple(values))

    def _carried(self, name: str, old: Any, new: Any, carried: list[Variable]) -> Any:
        """What a variable is when the first round starts; each round gives it a next value."""
        if alike(old, new):
            pairs = zip(parts_of(old), parts_of(new), strict=True)
            return rebuilt(old, [self._carried(name, one, two, carried) for one, two in pairs])
        if isinstance(old, Unset) and is_structure(new):
            return rebuilt(new, [self._carried(name, old, one, carried) for one in parts_of(new)])
        if old is new or isinstance(old, TensorArray):
            return old
        if not is_tensor(new) and not (is_tensor(old) and isinstance(new, bool | int | float)):
            return old
        if isinstance(old, Unset):
            parent = default_main_program().current_block()
            shape = new.shape if new.has_description() else None
            made = parent.create_var(dtype=new.dtype, shape=shape, type=new.type)
            made.stop_gradient = new.stop_gradient
        else:
            made = copied_number(old)
        carried.append(made)
        return made


def _as_bool(value: Any) -> Variable:
    found = scalar(value)
    return found if is_tensor(found) else constant(bool(found))
