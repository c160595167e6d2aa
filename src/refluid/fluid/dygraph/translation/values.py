"""Values that translated functions meet beside tensors: none yet, none any more, lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from refluid.fluid.dygraph.translation.declaring import declaring
from refluid.fluid.dygraph.translation.numbers import constant
from refluid.fluid.functions.control.arrays import (
    array_length,
    array_read,
    array_write,
    create_array,
    tensor_array_to_tensor,
)
from refluid.ir.variable import Variable


class Unset:
    """What a variable is that has no value, or none that a program can give. Using it fails."""

    def __init__(self, name: str, reason: str = "") -> None:
        self.__dict__.update(_name=name, _reason=reason)

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        reason = self._reason or "it has no value here"
        raise UnboundLocalError(f"local variable {self._name!r} can't be used: {reason}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._fail()

    __setattr__ = _fail
    __bool__ = __len__ = __iter__ = __getitem__ = __setitem__ = __call__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _fail
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __rpow__ = _fail
    __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = _fail
    __float__ = __int__ = __index__ = __str__ = __format__ = _fail

    def __repr__(self) -> str:
        return f"<{self._name} without value>"


class _NotReturned:
    """What a function will return before it came to a `return`."""

    def __repr__(self) -> str:
        return "<nothing returned yet>"


NOTHING = _NotReturned()


@dataclass(frozen=True)
class StatementState:
    """All that the parts of a statement change, by name."""

    get: Callable[[], tuple[Any, ...]]
    set: Callable[[tuple[Any, ...]], None] | None
    names: tuple[str, ...] = ()


def is_tensor(value: Any) -> bool:
    """Whether a value is known only when the program runs."""
    return isinstance(value, Variable)


def static(value: Any) -> Any:
    """A tensor as a variable of the program; other values as they are."""
    now = declaring()
    if now is not None and isinstance(value, Variable) and value.kind == "eager":
        return now.declared(value)  # type: ignore[arg-type]
    return value


class TensorArray:
    """A list to which a loop or branch of the program appends."""

    def __init__(self, elements: list[Any], dtype: Any) -> None:
        self.variable = create_array(dtype)
        for number, one in enumerate(elements):
            value = one if is_tensor(one) else constant(one, dtype)
            array_write(value, constant(number), self.variable)

    def append(self, value: Any) -> None:
        """Adds a tensor at the end."""
        if not is_tensor(value):
            value = constant(value, self.variable.dtype)
        array_write(value, self.length(), self.variable)

    def length(self) -> Variable:
        """How many there are."""
        return array_length(self.variable)

    def __getitem__(self, item: Any) -> Variable:
        if isinstance(item, slice):
            raise TypeError("a list that a loop over tensors filled can't be sliced; read elements")
        if not is_tensor(item):
            item = self.length() + item if item < 0 else constant(int(item))
        return array_read(self.variable, item)

    def __setitem__(self, item: Any, value: Any) -> None:
        place = item if is_tensor(item) else constant(int(item))
        array_write(value, place, self.variable)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a list that a loop over tensors filled is looped over by `for` alone")

    def pop(self, *_: Any) -> Any:
        """Not possible: TypeError."""
        raise TypeError("a list that a loop over tensors fills can only be appended to")

    extend = insert = remove = clear = sort = reverse = pop

    def joined(self, axis: int, *, stack: bool) -> Variable:
        """All elements as one tensor."""
        return tensor_array_to_tensor(self.variable, axis=axis, use_stack=stack)[0]
