"""`DataLoader.from_dataset`: a dataset's batches for a training loop of one's own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from refluid.core.data_ends import end_of_data, steps_together
from refluid.core.errors import EOFException
from refluid.core.places import Place
from refluid.core.values import LoDTensor
from refluid.feed.closing import ClosingIterator
from refluid.feed.text_datasets.batches import Batch
from refluid.feed.text_datasets.feed import DatasetFeed
from refluid.fluid.datasets.base import DatasetBase
from refluid.fluid.reader.base import DataLoaderBase, as_places

StepFeeds = list[dict[str, LoDTensor]]


class DatasetLoader(DataLoaderBase):
    """Iterates a dataset: each item has, per place, a dict of variable name -> LoDTensor.

    drop_last: leaves out batches with fewer rows than the batch size, and a last item with fewer
    batches than places. Raises TypeError for something else than a dataset.
    """

    def __init__(self, dataset: DatasetBase, places: Any, drop_last: bool) -> None:
        super().__init__()
        if not isinstance(dataset, DatasetBase):
            raise TypeError(f"dataset must be made by DatasetFactory, not {type(dataset).__name__}")
        self._dataset = dataset
        self._places: list[Place] = as_places(places)
        self._drop_last = drop_last
        self._begun: Callable[[], ClosingIterator | None] = lambda: None

    def __iter__(self) -> ClosingIterator:
        """Begins a pass; ended early, its threads end when the iterator is closed or dropped."""
        steps = ClosingIterator(self._pass_over())
        self._begun = weakref.ref(steps)
        return steps

    def __next__(self) -> StepFeeds:
        steps = self._begun()
        if steps is None:
            raise StopIteration
        step: StepFeeds = next(steps)
        return step

    def state_dict(self) -> dict[str, Any]:
        """Which rows of the pass were given: the dataset's `state_dict`."""
        return self._dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next pass give the rows that were left: the dataset's `load_state_dict`."""
        self._dataset.load_state_dict(state)

    def _pass_over(self) -> Generator[StepFeeds, None, None]:
        feed, begun = self._dataset.feed(1), steps_together()
        try:
            feed.start()
            yield from self._steps(feed)
            self._dataset.finish_pass()
            end_of_data(begun)
        finally:
            feed.stop()

    def _steps(self, feed: DatasetFeed) -> Iterator[StepFeeds]:
        """A row counts as trained when its step is given, or its batch left out."""
        waiting: list[Batch] = []
        for batch in iter(lambda: _next(feed), None):
            if self._drop_last and batch.rows < self._dataset.proto_desc.batch_size:
                feed.done.add(batch.spans)
                continue
            waiting.append(batch)
            if len(waiting) == len(self._places):
                yield self._step(feed, waiting)
                waiting = []
        if waiting and not self._drop_last:
            yield self._step(feed, waiting)

    def _step(self, feed: DatasetFeed, batches: list[Batch]) -> StepFeeds:
        step = [
            self._on_place(batch, place)
            for batch, place in zip(batches, self._places, strict=False)
        ]
        for batch in batches:
            feed.done.add(batch.spans)
        return step

    def _on_place(self, batch: Batch, place: Place) -> dict[str, LoDTensor]:
        return {
            name: LoDTensor(tensor.to(place.device), lod)
            for name, tensor, lod in zip(
                self._dataset.names, batch.tensors, batch.lods, strict=True
            )
        }


def _next(feed: DatasetFeed) -> Batch | None:
    """The next batch, None at the end."""
    try:
        return feed.take()
    except EOFException:
        return None
