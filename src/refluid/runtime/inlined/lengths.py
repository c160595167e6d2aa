"""Sizes of which it is noted what a body does with them.

What it computes of a size is an expression. What it decides by one becomes a condition, under which
what it did next holds. A size that it uses as a number of Python holds for that number alone: then
the statement is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from refluid.runtime.trees import Formula, Tree

# Takes a condition that holds.
Met = Callable[[Formula], None]


class Unfollowed(Exception):
    """What a statement does can't be told for other sizes."""


class Length(torch.SymInt):
    """A size, by its present value and the expression that finds it: a `SymInt`, which torch hands
    on as it is to whoever watches its calls."""

    def __init__(self, value: int, tree: Tree, met: Met) -> None:
        self.value, self.tree, self._met = value, tree, met

    def computed(self, value: int, form: str, *parts: Tree) -> Length:
        """Another size that is made of this one."""
        return Length(value, Formula(form, parts), self._met)

    def decided(self, form: str, other: Any, holds: bool) -> bool:
        """Notes what a comparison gave."""
        condition = Formula(form, (self.tree, tree_of(other)))
        self._met(condition if holds else negated(condition))
        return holds

    def _left(self, *_given: Any) -> Any:
        raise Unfollowed("uses a size as a number of Python")

    __index__ = __int__ = __float__ = __hash__ = _left
    __pow__ = __rpow__ = __divmod__ = _left

    def __truediv__(self, other: Any) -> Quotient:
        return Quotient(self, other)

    def __rtruediv__(self, other: Any) -> Quotient:
        return Quotient(other, self)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __repr__(self) -> str:
        return str(self.value)

    __str__ = __repr__

    def __format__(self, how: str) -> str:
        return format(self.value, how)

    def __neg__(self) -> Length:
        return self.computed(-self.value, "(-{})", self.tree)


AnySize = int | Length


class Quotient(torch.SymFloat):
    """A size over another number, or the reverse: all that can be done with it is to hand it to
    torch."""

    def __init__(self, above: Any, below: Any) -> None:
        if not (_is_number(above) and _is_number(below)):
            raise Unfollowed("divides by a size what is no number")
        self.value = number_of(above) / number_of(below)
        self.tree = Formula("({} / {})", (tree_of(above), tree_of(below)))

    def _left(self, *_given: Any) -> Any:
        raise Unfollowed("uses a quotient of sizes as a number of Python")

    __bool__ = __int__ = __float__ = __hash__ = __neg__ = __eq__ = __ne__ = _left
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = _left
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _left


def _is_number(one: Any) -> bool:
    return isinstance(one, int | float | Length)


def negated(condition: Formula) -> Formula:
    """That it doesn't hold."""
    return Formula("not {}", (condition,))


def number_of(one: Any) -> Any:
    """The present value of a size or a quotient; anything else as it is."""
    return one.value if isinstance(one, Length | Quotient) else one


def tree_of(one: Any) -> Tree:
    """How a size is written, or a quotient."""
    return one.tree if isinstance(one, Length | Quotient) else one


_ARITHMETIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("({} + {})", lambda a, b: a + b),
    "sub": ("({} - {})", lambda a, b: a - b),
    "mul": ("({} * {})", lambda a, b: a * b),
    "floordiv": ("({} // {})", lambda a, b: a // b),
    "mod": ("({} % {})", lambda a, b: a % b),
}
_COMPARISONS: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "eq": ("({} == {})", lambda a, b: a == b),
    "ne": ("({} != {})", lambda a, b: a != b),
    "lt": ("({} < {})", lambda a, b: a < b),
    "le": ("({} <= {})", lambda a, b: a <= b),
    "gt": ("({} > {})", lambda a, b: a > b),
    "ge": ("({} >= {})", lambda a, b: a >= b),
}


def _arithmetic(form: str, how: Callable[[int, int], int]) -> tuple[Any, Any]:
    def left(self: Length, other: Any) -> Any:
        if not isinstance(other, AnySize):
            return NotImplemented if not isinstance(other, float) else self._left()
        return self.computed(how(self.value, number_of(other)), form, self.tree, tree_of(other))

    def right(self: Length, other: Any) -> Any:
        if not isinstance(other, AnySize):
            return NotImplemented if not isinstance(other, float) else self._left()
        return self.computed(how(number_of(other), self.value), form, tree_of(other), self.tree)

    return left, right


def _comparison(form: str, how: Callable[[int, int], bool]) -> Any:
    def compared(self: Length, other: Any) -> Any:
        if not isinstance(other, int | float | Length):
            return NotImplemented
        return self.decided(form, other, how(self.value, number_of(other)))

    return compared


for _name, (_form, _sum) in _ARITHMETIC.items():
    _left, _right = _arithmetic(_form, _sum)
    setattr(Length, f"__{_name}__", _left)
    setattr(Length, f"__r{_name}__", _right)
for _name, (_form, _holds) in _COMPARISONS.items():
    setattr(Length, f"__{_name}__", _comparison(_form, _holds))
