"""Compiled loops as LLVM's text, which numba makes of them; machine code is made of it elsewhere.

By itself numba optimizes each function that a loop calls, and makes machine code of each, before it
does so of the loop with all of them in it: half of its time, for code that nobody calls.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

_LOGGER = logging.getLogger("refluid")
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def as_text() -> dict[str, Any]:
    """numba's options for what other compiled code alone calls: of it text is made, and no more.

    Where numba has not what that takes, which are parts of its own, it compiles as ever.
    """
    try:
        return {**_NO_WRAPPERS, "pipeline_class": _to_text()}
    except (AttributeError, ImportError) as error:
        _LOGGER.debug("numba makes machine code of all that loops call: %s", error)
        return _NO_WRAPPERS


def text_of(library: Any) -> str:
    """LLVM's text of a function compiled by these options, optimized, with all that it calls."""
    optimized = getattr(library, "optimized", library.get_llvm_str)
    return str(optimized())


def _to_text() -> type:
    """A compiler of numba's that stops at the text."""
    compiler: Any = import_module("numba.core.compiler").Compiler
    library: Any = import_module("numba.core.codegen").JITCodeLibrary
    make_function: Any = import_module("numba._dynfunc").make_function

    class LoopText(library):  # type: ignore[misc]
        def _optimize_final_module(self) -> None:
            return  # it becomes a part of others, which are

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def optimized(self) -> str:
            super()._optimize_final_module()
            return str(self._final_module)

    class ToText(compiler):  # type: ignore[misc]
        def compile_extra(self, function: FunctionType) -> Any:
            context = self.state.targetctx  # one of its own
            context.get_executable = finished
            self.state.library = LoopText(context.codegen(), function.__qualname__)
            return super().compile_extra(function)

    def finished(text: Any, described: Any, environment: Any) -> Any:
        text.finalize()
        module, name = described.lookup_module(), described.qualname
        return make_function(module, name, "", 0, environment, (text,))

    return ToText
