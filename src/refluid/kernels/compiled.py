"""Functions of loops over arrays as machine code, which is made once and then loaded.

numba makes it. Importing numba, and LLVM with it, takes half a second and 110 MB, so a process that
finds the code on disk does without (`machine_code.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch

_LOGGER = logging.getLogger("refluid")
F = TypeVar("F", bound=Callable[..., Any])


_wanted: list[Callable[[], bool]] = [lambda: True]


def keep_if(wanted: Callable[[], bool]) -> None:
    """Loops that are met from now on are kept on disk, and loaded from there, while this holds."""
    _wanted[:] = [wanted]


class Elements(NamedTuple):
    """A kind of argument: elements of that type, in so many dimensions; torch's or NumPy's.

    whole: whether they lie one after the other in memory that the processor reaches.
    """

    dtype: Any
    rank: int
    of_torch: bool
    whole: bool

    @property
    def name(self) -> str:
        """The type of the elements, as NumPy names it."""
        return str(self.dtype).rpartition(".")[2]


class CompiledLoop:
    """A function in the part of Python that numba compiles; it runs without the GIL.

    It takes tensors of the CPU, arrays, numbers, and tuples of these, and gives nothing or a whole
    number; what one loop calls of others is compiled with it. Divisions by zero follow IEEE.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._entries: dict[Any, Callable[..., Any]] = {}
        self._first: Callable[..., Any] = self.otherwise

    def __call__(self, *given: Any) -> Any:
        return self._first(*given)

    def otherwise(self, *given: Any) -> Any:
        """A call with arguments of other kinds than the first ones."""
        kinds = kinds_of(given)
        entry = self._entries.get(kinds)
        if entry is None:
            entry = self._entries[kinds] = self._made(kinds)
            if self._first == self.otherwise:
                self._first = entry
        return entry(*given)

    def _made(self, kinds: tuple[Any, ...]) -> Callable[..., Any]:
        if not (is_whole(kinds) and _wanted[0]()):
            return self.by_numba
        from refluid.kernels.machine_code import kept_entry

        return kept_entry(self, kinds) or self.by_numba

    def by_numba(self, *given: Any) -> Any:
        """What numba compiles in this process makes of the arguments, of which arrays needn't be
        contiguous."""
        return self._kept_by_numba(*map(_array, given))

    @cached_property
    def dispatcher(self) -> Any:
        """numba's, for callers that it compiles."""
        return self._dispatcher()

    @cached_property
    def _kept_by_numba(self) -> Any:
        # Until its file changes: after an edit of what it calls in another file, touch its own.
        try:
            return self._dispatcher(cache=True)
        except RuntimeError as error:
            _LOGGER.info("compiled code isn't kept: %s", error)
            return self.dispatcher

    def _dispatcher(self, **options: bool) -> Any:
        code, known = self.function.__code__, self.function.__globals__
        used = {name: _for_numba(known[name]) for name in code.co_names if name in known}
        twin = FunctionType(code, known | used, self.function.__name__)
        twin.__module__, twin.__qualname__ = self.function.__module__, self.function.__qualname__
        numba: Any = import_module("numba")
        return numba.njit(nogil=True, error_model="numpy", **options)(twin)


class Late:
    """What numba is told of a global of compiled loops, made when it first compiles them."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = cast(FunctionType, make)

    @cached_property
    def value(self) -> Any:
        return self.make()


def compiled(function: F) -> F:
    """The function as a `CompiledLoop`."""
    return cast(F, CompiledLoop(cast(FunctionType, function)))


def kinds_of(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """For each argument `Elements`, the type of a number, or a tuple of kinds."""
    return tuple([_kind(one) for one in given])


def _kind(given: Any) -> Any:
    if isinstance(given, torch.Tensor):
        whole = given.is_contiguous() and given.is_cpu
        return Elements(given.dtype, given.dim(), True, whole)
    if isinstance(given, np.ndarray):
        return Elements(given.dtype, given.ndim, False, given.flags.c_contiguous)
    return kinds_of(given) if isinstance(given, tuple) else type(given)


def is_whole(kind: Any) -> bool:
    """Whether all elements of such arguments lie as machine code needs them."""
    if isinstance(kind, Elements):
        return kind.whole
    return all(map(is_whole, kind)) if isinstance(kind, tuple) else True


def _array(given: Any) -> Any:
    if isinstance(given, tuple):
        return tuple(map(_array, given))
    return given.numpy() if isinstance(given, torch.Tensor) else given


def _for_numba(value: Any) -> Any:
    if isinstance(value, CompiledLoop):
        return value.dispatcher
    return value.value if isinstance(value, Late) else value
