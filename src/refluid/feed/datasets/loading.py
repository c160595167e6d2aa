"""`Loading`: the batches of a dataset, made in this process or by workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refluid.feed.datasets.dataset import IterableDataset, WorkerInfo, become_worker

if TYPE_CHECKING:
    from refluid.feed.workers import Stream

# Batches of an IterableDataset that each worker may be ahead.
_AHEAD = 2


@dataclass(frozen=True)
class Loading:
    """How to make batches of a dataset.

    sampler: gives the sample numbers of each batch; None for a dataset that is iterated.
    batch_size: of such a dataset; None where its items are batches already. convert: what is
    done to a list of samples. workers: processes; 0 for none.
    """

    title: str
    dataset: Any
    sampler: Iterable[list[int]] | None
    batch_size: int | None
    drop_last: bool
    convert: Callable[[Any], Any]
    workers: int = 0
    begin: Callable[[int], None] | None = None
    timeout: float | None = None
    lend: int = 0

    def start(self, skip: int = 0) -> BatchSource:
        """Begins a pass after its first `skip` batches, starting the workers if there are any."""
        if isinstance(self.dataset, IterableDataset):
            if self.workers == 0:
                return BatchSource(lambda: itertools.islice(self._iterated(), skip, None))
            stream = self._streams()
            return BatchSource(lambda: _skipping(stream.items(), skip), stream.crew.cancel)
        assert self.sampler is not None
        numbers = itertools.islice(_begun(self.sampler), skip, None)
        if self.workers == 0:
            return BatchSource(lambda: map(self._load, numbers))
        from refluid.feed.workers import Seeds, Tasks  # which most programs don't use

        tasks = Tasks(
            self.title,
            self._load,
            workers=self.workers,
            seeds=Seeds.draw(),
            begin=self._begin,
            lend=self.lend,
            timeout=self.timeout,
        )
        return BatchSource(lambda: tasks.results(numbers, skip), tasks.crew.cancel)

    def _load(self, numbers: list[int]) -> Any:
        return self.convert([self.dataset[number] for number in numbers])

    def _iterated(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.convert, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.convert(batch)

    def _streams(self) -> Stream:
        from refluid.feed.workers import Stream

        def part(number: int) -> Callable[[], Iterator[Any]]:
            def batches() -> Iterator[Any]:
                self._begin(number)
                return self._iterated()

            return batches

        makes = [part(number) for number in range(self.workers)]
        return Stream(self.title, makes, _AHEAD, rotate=True, lend=self.lend)

    def _begin(self, number: int) -> None:
        become_worker(WorkerInfo(number, self.workers, self.dataset))
        if self.begin is not None:
            self.begin(number)


@dataclass(frozen=True)
class BatchSource:
    """One pass: `make()` gives its batches, `cancel()` wakes it where it waits for workers."""

    make: Callable[[], Iterable[Any]]
    cancel: Callable[[], None] | None = None


def _begun(items: Iterable[Any]) -> Iterator[Any]:
    """The items, the first taken already: an order that is shuffled is drawn now."""
    rest = iter(items)
    return itertools.chain(list(itertools.islice(rest, 1)), rest)


def _skipping(items: Iterator[Any], count: int) -> Iterator[Any]:
    """As islice, but closing it closes `items`."""
    try:
        yield from itertools.islice(items, count, None)
    finally:
        items.close()  # type: ignore[attr-defined]
