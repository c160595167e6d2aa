"""What translated functions call: the user's functions are translated too, others replaced."""

from __future__ import annotations

import builtins
import functools
import logging
import operator
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from refluid.core.causes import unguarded
from refluid.core.dtypes import VarType
from refluid.fluid.dygraph import base
from refluid.fluid.dygraph.translation import folds
from refluid.fluid.dygraph.translation.counting import Counted, counted
from refluid.fluid.dygraph.translation.declaring import declaring
from refluid.fluid.dygraph.translation.values import TensorArray, is_tensor, static
from refluid.fluid.functions.control.arrays import (
    array_length,
    array_read,
    array_write,
    tensor_array_to_tensor,
)
from refluid.fluid.functions.io.printing import Print
from refluid.fluid.functions.math.reduction import sums
from refluid.fluid.functions.math.unary import abs as absolute
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.joining import concat, stack
from refluid.fluid.functions.tensor.shaping import shape as shape_of
from refluid.translate import Untranslatable, translated

_log = logging.getLogger("refluid")
_PATHS = sysconfig.get_paths()
_PYTHONS = tuple(str(Path(_PATHS[one]).resolve()) for one in ("stdlib", "platstdlib"))
_OURS = __name__.partition(".")[0]
_LIBRARIES = frozenset({_OURS, "numpy", "torch", "paddle", "scipy"})
_left: set[Any] = set()  # functions, and names of modules, that aren't translated


def leave(function: Callable[..., Any]) -> None:
    """The function is called as it is."""
    _left.add(getattr(function, "__code__", function))


def leave_module(name: str) -> None:
    """The functions of a module, and of those in it, are called as they are."""
    _left.add(name)


def callee(function: Any, asked: Any) -> Any:
    """What is called instead of `function` while a program is built.

    asked: what translated functions ask.
    """
    if declaring() is None:
        return function
    try:
        replaced = _REPLACED.get(unguarded(function))
    except TypeError:  # something that can't be hashed
        replaced = None
    if replaced is not None:
        return replaced
    if isinstance(function, MethodType):
        if isinstance(function.__func__, FunctionType):
            return MethodType(_translated(function.__func__, asked), function.__self__)
        return function
    if isinstance(function, FunctionType):
        return _translated(function, asked)
    if isinstance(function, functools.partial):
        return functools.partial(callee(function.func, asked), *function.args, **function.keywords)
    own = vars(type(function)).get("__call__")
    if isinstance(own, FunctionType) and not isinstance(function, type) and not _is_library(own):
        return MethodType(_translated(own, asked), function)
    return function


def _translated(function: FunctionType, asked: Any) -> Callable[..., Any]:
    if _is_library(function):
        return function
    try:
        return translated(function, asked).function
    except Untranslatable as error:
        _log.warning("%s runs as it is while a program is built: %s", function.__name__, error)
        return function


def _is_library(function: FunctionType) -> bool:
    """Whether a function is Python's or a library's: tensors decide nothing in it."""
    module = function.__module__ or ""
    root = module.partition(".")[0]
    if _left and (function.__code__ in _left or any(_is_in(module, one) for one in _left)):
        return True
    if root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__"):
        return True
    return function.__code__.co_filename.startswith(_PYTHONS) and "site-packages" not in (
        function.__code__.co_filename
    )


def _is_in(module: str, left: Any) -> bool:
    return isinstance(left, str) and (module == left or module.startswith(left + "."))


# -- functions of Python's on tensors ---------------------------------------------------


def _len(value: Any) -> Any:
    value = static(value)
    if isinstance(value, TensorArray):
        return value.length()
    if is_tensor(value):
        size = value.shape[0]
        return size if size >= 0 else shape_of(value)[0]
    return len(value)


def _print(*values: Any, **options: Any) -> None:
    now = declaring()
    if now is not None and now.trying:
        return
    tensors = [static(one) for one in values if is_tensor(one)]
    if not tensors:
        print(*values, **options)
    for one in tensors:
        Print(one)


def _range(*bounds: Any) -> Any:
    given = [static(one) for one in bounds]
    if not any(is_tensor(one) for one in given):
        return range(*bounds)
    start, stop, step = {1: (0, *given, 1), 2: (*given, 1), 3: (*given,)}[len(given)]
    return Counted(stop, lambda place: place, start, step)


def _enumerate(items: Any, start: int = 0) -> Any:
    found = counted(static(items))
    if not isinstance(found, Counted):
        return enumerate(items, start)
    element = found.element
    return Counted(found.size, lambda place: (place + start if start else place, element(place)))


def _zip(*items: Any, strict: bool = False) -> Any:
    found = [counted(static(one)) for one in items]
    if not any(isinstance(one, Counted) for one in found):
        return zip(*items, strict=strict)
    sizes = [one.size if isinstance(one, Counted) else len(one) for one in found]
    if any(is_tensor(one) for one in sizes):
        raise TypeError("zip of tensors whose sizes only the program knows; loop over one of them")
    size = min(sizes)
    return (
        tuple(one.element(place) if isinstance(one, Counted) else one[place] for one in found)
        for place in range(size)
    )


def _casting(kind: type, dtype: VarType) -> Callable[..., Any]:
    def convert(value: Any = 0, *others: Any) -> Any:
        value = static(value)
        return cast(value, dtype) if is_tensor(value) else kind(value, *others)

    return convert


def _abs(value: Any) -> Any:
    value = static(value)
    return absolute(value) if is_tensor(value) else abs(value)


def _isinstance(value: Any, kinds: Any) -> bool:
    """A list that became an array is still one to the user."""
    return isinstance([] if isinstance(value, TensorArray) else value, kinds)


def _joined(function: Callable[..., Any], *, stacks: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def join(input: Any = None, axis: int = 0, *others: Any, **options: Any) -> Any:
        input = options.pop("x", input)
        if isinstance(input, TensorArray):
            return input.joined(axis, stack=stacks)
        return function(input, axis, *others, **options)

    return join


def _of_array(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, for which a list that became an array is the program's variable."""

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        return function(*map(_variable, given), **{k: _variable(v) for k, v in named.items()})

    return call


def _variable(value: Any) -> Any:
    return value.variable if isinstance(value, TensorArray) else value


def _to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None) -> Any:
    """`fluid.dygraph.to_variable` within a program: a variable that holds the value."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = np.asarray(value)
    return assign(static(value))


def _sums(input: Any, out: Any = None) -> Any:
    """`layers.sums`, also of a list that became an array."""
    if not isinstance(input, TensorArray):
        return sums(input, out)
    found = folds.total(input)
    return found if out is None else assign(found, out)


_OF_ARRAYS = (array_length, array_read, array_write, tensor_array_to_tensor)
_REPLACED: dict[Any, Any] = {
    builtins.any: folds.any_of,
    builtins.all: folds.all_of,
    builtins.max: folds.extreme(max, operator.gt),
    builtins.min: folds.extreme(min, operator.lt),
    builtins.sum: folds.total,
    builtins.len: _len,
    builtins.print: _print,
    builtins.range: _range,
    builtins.enumerate: _enumerate,
    builtins.zip: _zip,
    builtins.int: _casting(int, VarType.INT64),
    builtins.float: _casting(float, VarType.FP32),
    builtins.bool: _casting(bool, VarType.BOOL),
    builtins.abs: _abs,
    builtins.isinstance: _isinstance,
    unguarded(concat): _joined(concat, stacks=False),
    unguarded(stack): _joined(stack, stacks=True),
    unguarded(sums): _sums,
    **{unguarded(one): _of_array(one) for one in _OF_ARRAYS},
    base.to_variable: _to_variable,
}
