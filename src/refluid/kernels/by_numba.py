"""Functions of loops over arrays as numba compiles them in this process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import torch

_LOGGER = logging.getLogger("refluid")


class NumbaLoop:
    """A function in the part of Python that numba compiles; it runs without the GIL.

    It takes tensors of the CPU, arrays, numbers, and tuples of these, and gives nothing or a whole
    number; what one loop calls of others is compiled with it. Divisions by zero follow IEEE.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def by_numba(self, *given: Any) -> Any:
        """What numba compiles in this process makes of the arguments, of which arrays needn't be
        contiguous."""
        return self._kept_by_numba(*map(_array, given))

    def entered(self, entry: Any) -> Callable[[bytes], int]:
        """How its kept machine code is called, with its arguments packed."""
        return cast(Callable[[bytes], int], entry)

    @cached_property
    def dispatcher(self) -> Any:
        """numba's, for callers that it compiles: Python can't call it."""
        return self._as_text()

    @property
    def inlined(self) -> Any:
        """numba's, for a caller that it becomes a part of: it isn't compiled by itself before."""
        return self._as_text(inline="always")

    def _as_text(self, **options: Any) -> Any:
        from refluid.kernels.loop_text import as_text  # few programs compile any

        return self._dispatcher(**options, **as_text())

    @cached_property
    def _kept_by_numba(self) -> Any:
        # Until its file changes: after an edit of what it calls in another file, touch its own.
        try:
            return self._dispatcher(cache=True)
        except RuntimeError as error:
            _LOGGER.info("compiled code isn't kept: %s", error)
            return self._dispatcher()

    def _dispatcher(self, **options: Any) -> Any:
        code, known = self.function.__code__, self.function.__globals__
        used = {name: _for_numba(known[name]) for name in code.co_names if name in known}
        twin = FunctionType(code, known | used, self.function.__name__)
        twin.__module__, twin.__qualname__ = self.function.__module__, self.function.__qualname__
        numba: Any = import_module("numba")
        return numba.njit(nogil=True, error_model="numpy", **options)(twin)


class Late:
    """What numba is told of a global of compiled loops, made when it first compiles them.

    It follows from the text of the module that `writer`, else `make`, stands in, and of those of
    the same package whose classes and functions that one has.
    """

    def __init__(self, make: Callable[[], Any], writer: Callable[..., Any] | None = None) -> None:
        self.make, self._writer = make, cast(FunctionType, writer or make)

    @cached_property
    def value(self) -> Any:
        return self.make()

    @cached_property
    def text(self) -> bytes:
        """What it follows from; its own code where the text isn't there."""
        code = self._writer.__code__
        own = _text(code.co_filename) or code.co_code
        return own + b"".join(map(_text, _others(self._writer.__module__)))


def _text(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _others(name: str) -> list[str]:
    """The files of the modules of a module's package from which it has something, those from which
    they have, and so on."""
    found, waiting = dict[str, str](), [name]
    while waiting:
        one = waiting.pop()
        module = sys.modules.get(one)
        if module is None or one in found or one.partition(".")[0] != name.partition(".")[0]:
            continue
        found[one] = getattr(module, "__file__", None) or ""
        waiting += [getattr(value, "__module__", None) or "" for value in vars(module).values()]
    return [path for one, path in sorted(found.items()) if one != name]


def intrinsic(write: Callable[[Any, Any], Any], writer: Callable[..., Any] | None = None) -> Any:
    """A function of loops that is written in LLVM's code.

    write: takes llvmlite's `ir` and `numba.core`, gives what `numba.extending.intrinsic` takes: a
    function of numba's context and the arguments' types for the signature and what generates code.
    writer: what generates it, where that stands in another file.
    """

    def make() -> Any:
        written = write(import_module("llvmlite.ir"), import_module("numba.core"))
        return import_module("numba.extending").intrinsic(written)

    return Late(make, writer or write)


def first_element(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    """In generated code: the address where an intrinsic's first argument, an array, begins."""
    return context.make_array(signature.args[0])(context, builder, given[0]).data


def _array(given: Any) -> Any:
    if isinstance(given, tuple):
        return tuple(map(_array, given))
    return given.numpy() if isinstance(given, torch.Tensor) else given


def _for_numba(value: Any) -> Any:
    if isinstance(value, NumbaLoop):
        return value.dispatcher
    return value.value if isinstance(value, Late) else value
