"""What goes wrong while a program is made ready to run is one error of Fluid's, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from refluid.analysis.verifier import check
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program

# What code raises that takes a program for a sound one.
_BARE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextmanager
def explained(program: Program, feeds: Collection[str] = ()) -> Iterator[None]:
    """Within the block plans are made of `program`, in which the names `feeds` are fed.

    Where that fails, EnforceNotMet tells what is wrong with the program: a program read from a
    damaged file, or put together by hand, may hold anything.
    """
    try:
        yield
    except _BARE as error:
        check(program, feeds=feeds)
        raise EnforceNotMet(
            f"the program can't be made ready to run: {type(error).__name__}: {error}. Its "
            "operators are sound one by one; was it damaged or put together by hand?"
        ) from error
