"""`Passes`: a reader that goes over its data again and again, and knows where it is."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch

from refluid.core.data_ends import end_of_data, steps_together
from refluid.core.errors import EOFException
from refluid.feed.batches import Column, ReaderBatch, as_batch, owned, pin
from refluid.feed.closing import when_gone
from refluid.feed.datasets.loading import BatchSource
from refluid.feed.position import Position
from refluid.feed.reader import QueueReader

# Starts a pass after so many of its batches.
Begin = Callable[[int], BatchSource]


class Passes:
    """Starts passes over batches of columns, and gives what each pass gives as tensors.

    begin: starts a pass; None until the user says where the data come from. places: how many
    batches make up one item of the reader; None where each item is one batch. drop_last: leaves
    out batches at the end that are too few for all places. copied: whether batches must be
    copied, because the user's generator may change the memory afterwards.
    """

    def __init__(self, name: str, capacity: int, *, drop_last: bool = True) -> None:
        self.reader = QueueReader(name, capacity)
        self.begin: Begin | None = None
        self.places: int | None = None
        self.copied = True
        self.pinned = False
        self._drop_last = drop_last
        self._position = Position()
        self._wanted: Position | None = None
        self._left: Position | None = None
        self._leaving = threading.RLock()  # a signal's handler may ask for the state within it

    def start(self) -> None:
        """Begins a pass: the next one, or where `load_state_dict` says."""
        assert self.begin is not None, "Data source of DataLoader has not set yet"
        with self._leaving:
            position = self._next_position()
            self.reader.reset()
        position.restore_random()
        position.remember_random()
        self._position, self._left = position, None
        source = self.begin(position.batch * (self.places or 1))
        make = functools.partial(_items, source, self.places, self._drop_last, self._tensors())
        self.reader.start(make, source.cancel)

    def reset(self) -> None:
        """Ends the pass; the next one begins at its first batch, or where a state was loaded."""
        with self._leaving:
            if self._wanted is None:
                self._position = self._next_position()
            self._left = None
            self.reader.reset()

    def give_up(self) -> None:
        """Ends the pass that just began, without waiting; the next one begins where it did."""
        with self._leaving:
            if self._wanted is None and self._position.batch:
                self._wanted = self._position
            self.reader.abandon(self.reader.generation)

    def leave(self, generation: int) -> None:
        """Ends the pass without waiting, but remembers how far it was.

        generation: the reader's in that pass, which may have ended already.
        """
        with self._leaving:
            if generation == self.reader.generation and not self.reader.ended:
                self._left = self._present()
                self.reader.abandon(generation)

    def state_dict(self) -> dict[str, Any]:
        """Where the reader is: give it to `load_state_dict` to go on with the next batch."""
        with self._leaving:
            return self._present().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass begin where `state` was taken. ValueError for something else."""
        wanted = Position.load(state)
        with self._leaving:
            self._wanted = wanted
            self.reader.reset()

    def _next_position(self) -> Position:
        """Where the next pass begins: an unfinished one begins anew."""
        if self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            return wanted
        return Position(self._position.epoch + (1 if self.reader.ended else 0))

    def _present(self) -> Position:
        if self._wanted is not None:
            return self._wanted
        if self._left is not None:
            return self._left
        started, ended = self.reader.started, self.reader.ended
        if started and not ended:
            now = self._position
            batch = now.batch + self.reader.delivered
            return Position(now.epoch, batch, now.python_random, now.numpy_random)
        between = Position(self._position.epoch + (1 if ended else 0))
        between.remember_random()
        return between

    def _tensors(self) -> Callable[[list[Column]], ReaderBatch]:
        if self.pinned and torch.cuda.is_available():
            return _pinned
        return _copied if self.copied else as_batch


def _copied(columns: list[Column]) -> ReaderBatch:
    return as_batch([owned(column) for column in columns])


def _pinned(columns: list[Column]) -> ReaderBatch:
    return pin(as_batch(columns))


def _items(
    source: BatchSource,
    places: int | None,
    drop_last: bool,
    tensors: Callable[[list[Column]], ReaderBatch],
) -> Iterator[Any]:
    """What the reader's queue holds: batches, or lists of a batch per place."""
    batches = iter(source.make())
    try:
        if places is None:
            yield from map(tensors, batches)
            return
        while step := [tensors(columns) for columns in islice(batches, places)]:
            if len(step) == places or not drop_last:
                yield step
    finally:
        _close(batches)


def _close(batches: Iterable[Any]) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()


class ReaderPass:
    """Iterates one pass. Another pass of the same loader ends this one.

    source: gives the items: the reader, or its double buffer. present: what the user gets for
    an item. anew: begins another pass of the same loader.
    """

    def __init__(
        self,
        passes: Passes,
        source: Any,
        present: Callable[[Any], Any],
        anew: Callable[[], ReaderPass],
    ) -> None:
        self._passes = passes
        self._anew = anew
        self._source = source
        self._present = present
        self._generation = passes.reader.generation
        self._ended = False
        self._begun = steps_together()
        when_gone(self, functools.partial(passes.leave, self._generation))

    def __call__(self) -> ReaderPass:
        """A pass from its beginning, as a loader gives one: `loader()()` is `loader()`."""
        untouched = self._is_current() and not self._ended and not self._passes.reader.delivered
        return self if untouched else self._anew()

    def __iter__(self) -> ReaderPass:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        if not self._is_current():
            raise RuntimeError(
                f"this iteration of {self._passes.reader.name!r} has ended, because the loader "
                "was iterated anew (within its own loop?) or reset; use a loader for each loop"
            )
        try:
            return self._present(self._source.next())
        except EOFException:
            self._ended = True
            end_of_data(self._begun)
            raise StopIteration from None

    next = __next__

    def _is_current(self) -> bool:
        return self._generation == self._passes.reader.generation
