"""`distributed_batch_reader`: each trainer takes its own batches of a common reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from refluid.core.job_variables import job_int

__all__ = ["distributed_batch_reader"]

Reader = Callable[[], Iterable[Any]]


def distributed_batch_reader(batch_reader: Reader) -> Reader:
    """Of each group of as many batches as there are trainers, this trainer's.

    The environment says how many there are (PADDLE_TRAINERS_NUM, 1 if unset) and which one this is
    (PADDLE_TRAINER_ID). Batches at the end that don't suffice for all trainers are left out, so
    that all take the same number of steps. Raises AssertionError for an id out of range.
    """
    count = job_int("PADDLE_TRAINERS_NUM", 1) or 1
    own = job_int("PADDLE_TRAINER_ID", 0)
    assert 0 <= own < count, f"PADDLE_TRAINER_ID is {own}, but there are {count} trainers"

    def batches() -> Iterator[Any]:
        rest = iter(batch_reader())
        while len(group := list(islice(rest, count))) == count:
            yield group[own]

    return batches
