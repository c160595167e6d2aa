"""Python's operators on variables: `a + b`, `a[0:2]`, `a < b`.

What they append to the program is told by `refluid.build`, which provides it when imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from refluid.core.dtypes import as_dtype


class Arithmetic(Protocol):
    """What the operators of Python append; each method returns the result variable."""

    def cast(self, var: Any, dtype: Any) -> Any: ...
    def scale(self, var: Any, scale: float, bias: float) -> Any: ...
    def binary(self, var: Any, other: Any, op_type: str, *, reverse: bool = False) -> Any: ...
    def subscript(self, var: Any, item: Any) -> Any: ...


_appending: Arithmetic


def provide(arithmetic: Arithmetic) -> None:
    """Says what Python's operators on variables append."""
    global _appending
    _appending = arithmetic


_Find = Callable[[str], Callable[..., Any] | None]


def _no_method(_name: str) -> Callable[..., Any] | None:
    return None


_method: _Find = _no_method


def provide_methods(find: _Find) -> None:
    """Says which functions are methods of variables too, by their names: those of Paddle 2."""
    global _method
    _method = find


def _named(name: str, *given: Any) -> Any:
    """What a function of Paddle 2 gives, where Paddle 2's are there."""
    function = _method(name)
    return NotImplemented if function is None else function(*given)


def _there(_var: Any) -> bool:
    return True


_true: Callable[[Any], bool] = _there


def provide_truth(find: Callable[[Any], bool]) -> None:
    """Says whether a variable counts as true where Python asks; one that is there does else."""
    global _true
    _true = find


class Overloads:
    """Mix-in of `Variable` with Python's operators."""

    __hash__ = object.__hash__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            method = None if name.startswith("_") else _method(name)
            if method is None:
                kind = type(self).__name__
                raise AttributeError(f"{kind!r} object has no attribute {name!r}")
            return partial(method, self)

    def astype(self: Any, dtype: Any) -> Any:
        """This variable cast to another element type."""
        return _appending.cast(self, as_dtype(dtype))

    def __neg__(self: Any) -> Any:
        return _appending.scale(self, -1.0, 0.0)

    def __add__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_add")

    def __radd__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_add")

    def __sub__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_sub")

    def __rsub__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_sub", reverse=True)

    def __mul__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_mul")

    def __rmul__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_mul")

    def __truediv__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_div")

    def __rtruediv__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_div", reverse=True)

    __div__, __rdiv__ = __truediv__, __rtruediv__

    def __pow__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_pow")

    def __rpow__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_pow", reverse=True)

    def __floordiv__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_floordiv")

    def __mod__(self, other: Any) -> Any:
        return _appending.binary(self, other, "elementwise_mod")

    def __matmul__(self, other: Any) -> Any:
        return _named("matmul", self, other)

    def __and__(self, other: Any) -> Any:
        return _named("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return _named("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return _named("bitwise_xor", self, other)

    def __invert__(self) -> Any:
        found = _named("bitwise_not", self)
        if found is NotImplemented:  # Python takes it for the result
            raise TypeError(
                "bad operand type for unary ~: 'Variable'; use fluid.layers.logical_not"
            )
        return found

    @property
    def ndim(self: Any) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def T(self: Any) -> Any:  # noqa: N802
        """The dimensions in reverse order."""
        return _named("transpose", self, list(range(len(self.shape)))[::-1])

    def __eq__(self, other: Any) -> Any:
        return _appending.binary(self, other, "equal")

    def __ne__(self, other: Any) -> Any:
        return _appending.binary(self, other, "not_equal")

    def __lt__(self, other: Any) -> Any:
        return _appending.binary(self, other, "less_than")

    def __le__(self, other: Any) -> Any:
        return _appending.binary(self, other, "less_equal")

    def __gt__(self, other: Any) -> Any:
        return _appending.binary(self, other, "greater_than")

    def __ge__(self, other: Any) -> Any:
        return _appending.binary(self, other, "greater_equal")

    def __bool__(self) -> bool:
        return _true(self)

    def __getitem__(self: Any, item: Any) -> Any:
        return _appending.subscript(self, item)

    def __iter__(self: Any) -> Iterator[Any]:
        """Its rows, where it is known how many there are: Python would ask for ever more."""
        known = self.has_description() and len(self.shape) > 0
        if not known or self.shape[0] < 0:
            raise TypeError(
                f"how many rows {self.name!r} has isn't known before the program runs, so Python "
                "can't go through them: use fluid.layers.while_loop, or StaticRNN or DynamicRNN"
            )
        return (self[number] for number in range(self.shape[0]))
