"""Functions of loops over arrays, compiled by numba on their first call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_LOGGER = logging.getLogger("refluid")
F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function as machine code, kept in a cache on disk; it runs without the GIL.

    Where nothing can be written it is compiled anew in each process. Divisions by zero follow
    IEEE. numba keeps machine code until the file of the function that Python calls changes: after
    an edit of what that calls in another file, touch its own.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError as error:
        _LOGGER.info("compiled code isn't kept: %s", error)
        return cast(F, numba.njit(nogil=True, error_model="numpy")(function))
