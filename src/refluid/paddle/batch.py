"""`paddle.batch`: groups a reader's samples into minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

Sample = TypeVar("Sample")


def batch(
    reader: Callable[[], Iterator[Sample]], batch_size: int, drop_last: bool = False
) -> Callable[[], Iterator[list[Sample]]]:
    """A reader of lists of `batch_size` samples of `reader`.

    The last list is shorter where the samples don't divide evenly; `drop_last` leaves it out.
    Raises ValueError where `batch_size` isn't a positive integer.
    """
    if int(batch_size) != batch_size or batch_size <= 0:
        raise ValueError(
            f"paddle.batch: batch_size should be a positive integer value, but got {batch_size!r}"
        )

    def batch_reader() -> Iterator[list[Sample]]:
        samples = iter(reader())
        while group := list(islice(samples, int(batch_size))):
            if len(group) == batch_size or not drop_last:
                yield group

    return batch_reader
