"""Compiled loops that a team of threads runs at once: OpenMP's, by which torch's own kernels run.

Its threads are those that torch has: as many, and awake where a kernel of torch's has just ended.
Each enters the loop with the same arguments, and takes one part of the work after the other by
`taken`, so that a thread that comes late has less to do, and one that is alone does all of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import torch

from refluid.kernels.by_numba import first_element, intrinsic
from refluid.kernels.compiled import CompiledLoop, is_shared

F = TypeVar("F", bound=Callable[..., Any])

# Not empty in a forked process, in which GNU's OpenMP would wait for threads that aren't there.
_forked: list[bool] = []
os.register_at_fork(after_in_child=lambda: _forked.append(True))


def team_size() -> int:
    """How many threads share a loop that is called now: in a forked process the caller alone."""
    alone = _forked or not is_shared() or _parallel() is None
    return 1 if alone else torch.get_num_threads()


def in_team(function: Any, given: Any) -> None:
    """Has each thread of the team, or of a forked process, call a function of C with a buffer."""
    run = _parallel()
    if run is None or _forked:
        function(given)
    else:
        run(ctypes.cast(function, ctypes.c_void_p), given, torch.get_num_threads(), 0)


class TeamLoop(CompiledLoop):
    """A loop that gives nothing, made to be run by several threads at once.

    Where no code is kept (`machine_code.py`), or torch has one thread, the caller runs it alone.
    """

    def entered(self, entry: Any) -> Callable[[bytes], int]:
        run, address = _parallel(), ctypes.cast(entry, ctypes.c_void_p)

        def enter(packed: bytes) -> int:
            size = team_size()
            if size == 1:
                return int(entry(packed))
            run(address, packed, size, 0)
            return 0

        return enter


def for_team(function: F) -> F:
    """The function as a `TeamLoop`."""
    return cast(F, TeamLoop(cast(FunctionType, function)))


def by_caller(loop: F) -> F:
    """A team's loop as one that the caller runs alone, by the same machine code."""
    return cast(F, CompiledLoop(cast(TeamLoop, loop).function))


@cache
def _parallel() -> Any:
    """OpenMP's function that has a team run another one; None where torch has none such."""
    for path in (Path(torch.__file__).parent / "lib").glob("lib*omp*.so*"):
        try:
            found = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD).GOMP_parallel
        except (OSError, AttributeError):  # not what torch has loaded, or of another kind
            continue
        found.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint]
        found.restype = None
        return found
    return None


@intrinsic
def taken(ir: Any, numba: Any) -> Any:
    """In loops: the number of the next part of the work, from an int64 [1] that is 0 before.

    Adds one to the first element of that, and gives what it was.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        counter, one = first_element(context, builder, signature, given), ir.IntType(64)(1)
        return builder.atomic_rmw("add", counter, one, "monotonic")

    return lambda _typing, counter: (numba.types.int64(counter), generate)
