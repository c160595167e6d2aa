"""Decorators that choose, order and group samples."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from refluid.core.bounds import whole_number
from refluid.core.data_ends import end_of_data, steps_together

Reader = Callable[[], Iterable[Any]]

_ENDED = object()


class ComposeNotAligned(ValueError):
    """Readers given to `compose` ended at different samples."""


def cache(reader: Reader) -> Reader:
    """Keeps all samples in memory: `reader` is read once, by the first pass over the result."""
    kept: list[tuple[Any, ...]] = []

    def cached() -> Iterator[Any]:
        if not kept:
            kept.append(tuple(reader()))
        return iter(kept[0])

    return cached


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """`func` of one sample of each reader; ends with the shortest one."""

    def mapped() -> Iterator[Any]:
        return map(func, *(reader() for reader in readers))

    return mapped


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Reads `buf_size` samples at a time and gives them in random order (module `random`)."""

    size = whole_number("buf_size", buf_size, least=0)

    def shuffled() -> Iterator[Any]:
        samples = iter(reader())
        while held := list(itertools.islice(samples, size)):
            random.shuffle(held)
            yield from held

    return shuffled


def chain(*readers: Reader) -> Reader:
    """All samples of the first reader, then all of the second, and so on."""

    def chained() -> Iterator[Any]:
        return itertools.chain.from_iterable(reader() for reader in readers)

    return chained


def compose(*readers: Reader, **kwargs: Any) -> Reader:
    """Samples of several readers side by side in one flat tuple.

    Readers that give `(1, 2)`, `3` and `(4, 5)` compose to `(1, 2, 3, 4, 5)`. Where one ends
    before another, ComposeNotAligned is raised; with `check_alignment=False` the rest is dropped.
    """
    check_alignment = kwargs.pop("check_alignment", True)
    if kwargs:
        raise TypeError(f"compose() got an unexpected keyword argument {next(iter(kwargs))!r}")

    def composed() -> Iterator[tuple[Any, ...]]:
        rows = itertools.zip_longest(*(reader() for reader in readers), fillvalue=_ENDED)
        for row in rows:
            if any(sample is _ENDED for sample in row):
                if check_alignment:
                    raise ComposeNotAligned(_which_ended(row))
                return
            yield tuple(itertools.chain.from_iterable(map(_as_tuple, row)))

    return composed


def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """A reader of lists of `batch_size` samples of `reader`.

    The last list is shorter where the samples don't divide evenly; `drop_last` leaves it out.
    Raises ValueError where `batch_size` isn't a positive integer.
    """
    if int(batch_size) != batch_size or batch_size <= 0:
        raise ValueError(
            f"paddle.batch: batch_size should be a positive integer value, but got {batch_size!r}"
        )

    size = whole_number("batch_size", batch_size)

    def batch_reader() -> Iterator[list[Any]]:
        begun, samples = steps_together(), iter(reader())
        while group := list(itertools.islice(samples, size)):
            if len(group) == size or not drop_last:
                yield group
        end_of_data(begun)

    return batch_reader


def firstn(reader: Reader, n: int) -> Reader:
    """The first `n` samples."""

    count = whole_number("the number of samples", n, least=0)

    def first() -> Iterator[Any]:
        return itertools.islice(reader(), count)

    return first


def _as_tuple(sample: Any) -> tuple[Any, ...]:
    return sample if isinstance(sample, tuple) else (sample,)


def _which_ended(row: tuple[Any, ...]) -> str:
    ended = [str(place) for place, sample in enumerate(row) if sample is _ENDED]
    return (
        f"outputs of readers are not aligned: of {len(row)} readers, number {', '.join(ended)} "
        "(from 0) ended first; pass check_alignment=False to stop at the shortest"
    )
