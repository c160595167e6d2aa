"""The user's generators as sources of batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from refluid.build import at_once
from refluid.core.dtypes import to_numpy
from refluid.core.values import LoDTensor
from refluid.feed.batches import Column, as_column
from refluid.feed.datasets.loading import BatchSource
from refluid.feed.decorators import batch
from refluid.feed.sample_columns import Field, columns
from refluid.fluid.reader.passes import Begin, Passes

Generator = Callable[[], Iterable[Any]]
_ALONE = (np.ndarray, LoDTensor, torch.Tensor)
# Batches that a worker process may be ahead of the queue in the training process.
_AHEAD = 2


class GeneratorSource:
    """Says where `passes` take their batches from: one of the user's kinds of generators.

    fields: the variables that are fed. multiprocess: the generator runs in a process of its own.
    """

    def __init__(
        self, passes: Passes, fields: Sequence[Field] | None, multiprocess: bool = False
    ) -> None:
        self._passes = passes
        self._fields = fields
        self._multiprocess = multiprocess

    def set_samples(self, generator: Generator, batch_size: int, drop_last: bool) -> None:
        """A generator of samples, which are made into batches of `batch_size`."""
        self.set_sample_lists(batch(generator, batch_size, drop_last))

    def set_sample_lists(self, generator: Generator) -> None:
        """A generator of lists of samples."""
        fields = self._fields
        if fields is None:  # only dygraph has no variables that say what samples are
            assert at_once(), "feed_list is needed to make batches of samples"
            self._set(generator, _stacked, copied=False)
        else:
            self._set(generator, lambda samples: columns(fields, samples), copied=False)

    def set_batches(self, generator: Generator) -> None:
        """A generator of batches: an array or LoDTensor per variable, or a dict by name.

        Numbers and lists of them become arrays of the variable's element type.
        """
        fields = self._fields
        self._set(generator, lambda values: _batch(fields, values), copied=True)

    def _set(
        self, generator: Generator, convert: Callable[[Any], list[Column]], copied: bool
    ) -> None:
        assert callable(generator), (
            f"a loader takes a function that returns a generator, not {type(generator).__name__}"
        )
        self._passes.copied = copied and not self._multiprocess
        make = _in_worker if self._multiprocess else _in_thread
        self._passes.begin = make(self._passes, generator, convert)


def _stacked(samples: Iterable[Sequence[Any]]) -> list[Column]:
    """An array of each field of samples, by their own shapes and element types."""
    return [as_column(np.stack(values), "a sample") for values in zip(*samples, strict=True)]


def _converted(
    generator: Generator, convert: Callable[[Any], list[Column]], skip: int
) -> Iterator[list[Column]]:
    """Batches after the first `skip`, which are made by the generator but not converted."""
    items = generator()
    try:
        yield from map(convert, itertools.islice(items, skip, None))
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


def _in_thread(passes: Passes, generator: Generator, convert: Callable[[Any], Any]) -> Begin:
    return lambda skip: BatchSource(lambda: _converted(generator, convert, skip))


def _in_worker(passes: Passes, generator: Generator, convert: Callable[[Any], Any]) -> Begin:
    from refluid.feed.workers import Stream  # which most programs don't use

    def begin(skip: int) -> BatchSource:
        stream = Stream(
            passes.reader.name,
            [lambda: _converted(generator, convert, skip)],
            _AHEAD,
            rotate=True,
            lend=passes.reader.queue.capacity() + 2 * (passes.places or 1) + _AHEAD,
        )
        return BatchSource(stream.items, stream.crew.cancel)

    return begin


def _batch(fields: Sequence[Field] | None, values: Any) -> list[Column]:
    names = None if fields is None else [field.name for field in fields]
    if isinstance(values, Mapping):
        missing = [name for name in names or () if name not in values]
        if names is None or missing:
            raise ValueError(f"a batch given as dict lacks {', '.join(missing) or 'feed_list'}")
        values = [values[name] for name in names]
    elif isinstance(values, _ALONE) and names is not None and len(names) == 1:
        values = [values]
    whats = [f"what the generator gave for {name!r}" for name in names or ()]
    values = list(values)
    whats += [f"value {place} of a batch" for place in range(len(whats), len(values))]
    made = list(map(as_column, values, whats))
    for place, (field, value) in enumerate(zip(fields or (), values, strict=False)):
        array, lod = made[place]
        if not isinstance(value, _ALONE) and array.dtype.kind in "fiub":
            made[place] = array.astype(to_numpy(field.dtype), copy=False), lod
    return made
