"""Which operators run as compiled loops: those with much to do, and those that are called often.

So a call may do something else than an earlier one that was given the same. Who follows a body, to
find what an operator always does, learns here of a choice that isn't for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import local

import torch
from torch import Tensor

from refluid.core import flags
from refluid.kernels.products import limits

# A loop of few numbers gains less than it takes to load its code: so many calls of such operators
# are left to torch first.
_OFTEN = 64

_calls: Iterator[int] = count()


def loops_pay(size: int, many: int) -> bool:
    """Whether an operator of that size is a compiled loop, as those from the size `many` on are."""
    if not flags.value("refluid_recurrent_loops"):
        return False
    # Runs that have to repeat one another begin with loops.
    if size >= many or limits.repeatable or next(_calls) >= _OFTEN:
        return True
    for tell in _followers.told:
        tell()
    return False


class _Followers(local):
    """Who is told of choices for the present, in each thread."""

    def __init__(self) -> None:
        self.told: list[Callable[[], None]] = []


_followers = _Followers()


@contextmanager
def following(tell: Callable[[], None]) -> Iterator[None]:
    """Has `tell` called wherever something is chosen in this thread that later calls may change."""
    _followers.told.append(tell)
    try:
        yield
    finally:
        _followers.told.pop()


def of_cpu(dtype: torch.dtype, *given: Tensor | None) -> bool:
    """Whether all are such tensors, on the CPU, of which autograd takes no notes."""
    noted = torch.is_grad_enabled()
    for one in given:
        if one is None:
            continue
        if one.dtype is not dtype or not one.is_cpu or (noted and one.requires_grad):
            return False
    return True


def are_plain(dtype: torch.dtype, *given: Tensor | None) -> bool:
    """As `of_cpu`, and the numbers of each follow one another in memory."""
    return of_cpu(dtype, *given) and all(one is None or one.is_contiguous() for one in given)
