"""A step that waits: what was asked for, done when somebody looks, or as a whole at its end.

A loop that trains a declarative function calls it, then `backward`, `minimize` and
`clear_gradients`, and looks at nothing in between. So the call may wait until the gradients are
forgotten, and all of it then is one run of one program. The variables that it would read or change,
and its results, are watched meanwhile: whoever takes the value of one, or runs anything else, first
has happen what was asked for so far, one after the other as it would have happened then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from refluid.eager.tensor import VarBase


class WaitingStep(Protocol):
    """A step whose function was called. Each method says whether the step goes on waiting."""

    def backward(self, result: VarBase) -> bool:
        """`backward` of a result is asked for."""

    def update(self, updates: Any, parameters: Sequence[VarBase]) -> list[Any] | None:
        """An update of parameters is asked for; the (parameter, gradient) pairs, for later."""

    def clear(self, parameter: VarBase) -> bool:
        """That a parameter's gradient be forgotten is asked for."""

    def happen(self) -> None:
        """Does what was asked for so far."""


class WaitingSlot:
    """The step that waits now, if any, with the variables that are watched for it."""

    def __init__(self) -> None:
        self.now: WaitingStep | None = None
        self._watched: list[VarBase] = []

    def begin(self, step: WaitingStep, variables: Iterable[VarBase]) -> None:
        """The step waits from here on."""
        self.now, self._watched = step, list(variables)
        for one in self._watched:
            one.__class__ = watched(one.__class__)

    def end(self) -> None:
        """The step waits no longer, and nothing is watched."""
        variables, self.now, self._watched = self._watched, None, []
        for one in variables:
            one.__class__ = one.plain  # type: ignore[attr-defined]

    def happen(self) -> None:
        """Does what waits, if anything does."""
        if self.now is not None:
            self.now.happen()


waiting = WaitingSlot()


class AwaitedVariable:
    """A variable that a waiting step reads, changes or makes. plain: its class at other times."""

    plain: type[VarBase]

    @property
    def _value(self) -> Any:
        return _plain(self)._value

    @_value.setter
    def _value(self, value: Any) -> None:
        _plain(self)._value = value

    def backward(
        self, grad_tensor: Any = None, retain_graph: bool = False, backward_strategy: Any = None
    ) -> None:
        """Waits with the step where it begins with 1 and happens once, or happens."""
        step: Any = waiting.now
        usual = not isinstance(grad_tensor, VarBase) and not retain_graph
        if step is None or not usual or not step.backward(self):
            _plain(self).backward(grad_tensor, retain_graph, backward_strategy)

    def clear_gradient(self, *given: Any) -> None:
        """Waits with the step, or happens."""
        step: Any = waiting.now
        if given or step is None or not step.clear(self):
            _plain(self).clear_gradient(*given)


def _plain(variable: Any) -> VarBase:
    """The variable as it is when nothing waits."""
    waiting.happen()
    if isinstance(variable, AwaitedVariable):  # a copy of one that was watched
        variable.__class__ = variable.plain  # type: ignore[assignment]
    found: VarBase = variable
    return found


_classes: dict[type[VarBase], type[VarBase]] = {}


def watched(kind: type[VarBase]) -> type[VarBase]:
    """The class of a watched variable of a class."""
    found = _classes.get(kind)
    if found is None:
        found = _classes[kind] = type(kind.__name__, (AwaitedVariable, kind), {"plain": kind})
    return found


class LaterPairs(list[Any]):
    """(parameter, gradient) pairs that few look at: they are made for who does.

    made: called once, then, for the pairs; None where an update waits that fills them.
    """

    def __init__(self, made: Callable[[], Iterable[Any]] | None = None) -> None:
        super().__init__()
        self._made = made

    def fill(self, pairs: Iterable[Any]) -> None:
        """Puts the pairs in, once."""
        list.extend(self, pairs)

    def __radd__(self, before: list[Any]) -> list[Any]:
        return [*before, *self]

    def looked_at(self) -> None:
        """Has them there."""
        made, self._made = self._made, None
        if made is not None:
            self.fill(made())
        else:
            waiting.happen()


def _looking(name: str) -> Callable[..., Any]:
    plain = getattr(list, name)

    def look(self: LaterPairs, *given: Any) -> Any:
        self.looked_at()
        return plain(self, *given)

    return look


# What there is to a list before anybody looks at it.
_UNSEEN = {"__new__", "__init__", "__getattribute__", "__class_getitem__", "__hash__", "__doc__"}
for _name in vars(list).keys() - _UNSEEN | {"__reduce_ex__"}:
    setattr(LaterPairs, _name, _looking(_name))
