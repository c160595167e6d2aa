"""Results below 1.2e-38 as zeros, for a while, in all threads that torch's kernels run by.

Such numbers are subnormal: of fewer digits than others. Intel's processors take a hundred times as
long over one, so that a few of them in a hundred decide what a product of matrices takes. What is
asked for here is the processor's "flush to zero"; its "denormals are zero" stays off, so that a
number that was subnormal before is read as what it is.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from refluid.kernels.teams import in_team

# glibc's fenv_t of x86-64: what the old floating-point unit has, then MXCSR.
_SIZE, _MXCSR = 32, 28
_FLUSH_TO_ZERO = 1 << 15


class _Thread(threading.local):
    """What brings a thread's team back, and to which environment; None where nothing has to."""

    former: tuple[Any, Any] | None = None


_thread = _Thread()


def flush() -> None:
    """From now on results of kernels that are subnormal are zeros, until `keep`.

    Nothing happens where the caller has that anyhow, nor on processors other than x86-64.
    """
    known = _functions()
    if known is None:
        return
    read, setter = known
    former = ctypes.create_string_buffer(_SIZE)
    read(former)
    (control,) = struct.unpack_from("<I", former, _MXCSR)
    if control & _FLUSH_TO_ZERO:
        return
    flushing = ctypes.create_string_buffer(former.raw, _SIZE)
    struct.pack_into("<I", flushing, _MXCSR, control | _FLUSH_TO_ZERO)
    _thread.former = setter, former
    in_team(setter, flushing)


def keep() -> None:
    """Results are again as they were before `flush`; nothing happens where they are."""
    former = _thread.former
    if former is not None:
        _thread.former = None
        in_team(*former)


@cache
def _functions() -> tuple[Callable[[Any], int], Any] | None:
    """C's `fegetenv`, and `fesetenv` for a team; None where the environment is another."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc":
        return None
    try:
        library = ctypes.CDLL("libm.so.6")
        return library.fegetenv, library.fesetenv
    except (OSError, AttributeError):
        return None
