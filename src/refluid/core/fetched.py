"""Arrays that users are given: NumPy's, with the conversions that Fluid's users had."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

_Number = TypeVar("_Number", int, float, complex)


class FetchedArray(np.ndarray[Any, Any]):
    """An array whose only element is a number to Python, whatever its dimensions.

    `float(loss)`, `int(count)` and `"%f" % loss` work for arrays of shape (1,) or (1, 1), as they
    did before NumPy 2.4; TypeError for other sizes. So do a few methods that NumPy has dropped.
    Slices and results of arithmetic are such arrays too. In all else it is an `ndarray`: it prints
    as one, and pickles as one, to be loaded where there is no refluid. `numpy.array` and
    `numpy.asarray` give a plain one, but in scripts that `refluid run` runs (`keep_when_copied`).
    """

    __slots__ = ()
    # Above that of plain arrays: joined with them they give arrays of this kind.
    __array_priority__ = 0.5

    def _only(self, convert: type[_Number]) -> _Number:
        if self.size != 1:
            raise TypeError(
                f"only size-1 arrays can be converted to Python scalars, not one of shape "
                f"{self.shape}"
            )
        return convert(self.view(np.ndarray).reshape(()))

    def __float__(self) -> float:
        return self._only(float)

    def __int__(self) -> int:
        return self._only(int)

    def __complex__(self) -> complex:
        return self._only(complex)

    def __bool__(self) -> bool:
        """The element; an empty array is False, and several elements are a ValueError."""
        return bool(self.size and self.view(np.ndarray))

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool | None = None, /
    ) -> Any:
        """What a ufunc gives: a NumPy number where it would for a plain array.

        NumPy 1 doesn't say whether it would; what has memory of its own is a result there.
        """
        if array is self:  # the result was asked for in this array
            return array
        number = return_scalar
        if number is None:
            number = context is not None or array.base is None
        return array[()] if number and array.ndim == 0 else array.view(FetchedArray)

    def tostring(self, order: Any = "C") -> bytes:
        """The bytes of the elements: `tobytes`, by its name before NumPy 2.3."""
        return self.tobytes(order)

    def itemset(self, *where_and_value: Any) -> None:
        """Sets one element: `itemset(value)`, `itemset(place, value)`. Gone since NumPy 2.0."""
        *where, value = where_and_value
        place = where[0] if len(where) == 1 else tuple(where)
        if not where and self.size == 1:
            self[...] = value
        elif isinstance(place, tuple):
            self[place] = value
        else:
            self.flat[place] = value

    def ptp(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Largest less smallest element along an axis: a method until NumPy 2.0."""
        most, least = (end(axis, keepdims=keepdims) for end in (self.max, self.min))
        return np.subtract(most, least, out=out)

    def newbyteorder(self, new_order: Any = "S") -> Any:
        """The same bytes read in another order: a method until NumPy 2.0."""
        return self.view(self.dtype.newbyteorder(new_order))


def fetched(value: Any) -> Any:
    """A value for users: an array as one of theirs, sharing memory; whatever else as it is."""
    return value.view(FetchedArray) if type(value) is np.ndarray else value


def keep_when_copied(*others: type) -> None:
    """Has `numpy.array` and `numpy.asarray` of what was fetched give arrays for users, too.

    So `float(numpy.array(loss))` works as it did before NumPy 2.4, for the whole process. others:
    further types of what is fetched, which aren't arrays themselves.
    """
    kinds = (FetchedArray, *others)
    for name in ("array", "asarray"):
        function = getattr(np, name)
        if not hasattr(function, "__wrapped__"):
            setattr(np, name, _keeping(function, kinds))


def _keeping(function: Callable[..., Any], kinds: tuple[type, ...]) -> Callable[..., Any]:
    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        given = args[0] if args else None
        if type(given) is list and given:
            given = given[0]
        return fetched(made) if isinstance(given, kinds) else made

    return make
