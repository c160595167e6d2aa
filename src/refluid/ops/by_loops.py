"""Which operators run as compiled loops: those with much to do, and those that are called often."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

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
    return size >= many or limits.repeatable or next(_calls) >= _OFTEN


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
