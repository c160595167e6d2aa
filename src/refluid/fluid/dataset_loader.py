"""`DataLoader.from_dataset`: a dataset's batches for a training loop of one's own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping
from typing import Any

from refluid.core.errors import EOFException
from refluid.core.places import Place
from refluid.core.values import LoDTensor
from refluid.feed.dataset_batches import Batch
from refluid.feed.dataset_feed import DatasetFeed
from refluid.fluid.dataset_base import DatasetBase
from refluid.fluid.reader.base import DataLoaderBase, as_places

Step = list[dict[str, LoDTensor]]


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
        self._begun: Callable[[], Generator[Step, None, None] | None] = lambda: None

    def __iter__(self) -> Generator[Step, None, None]:
        """Begins a pass; ended early, its threads end when the iterator is closed or dropped."""
        steps = self._pass_over(self._dataset.feed(1))
        self._begun = weakref.ref(steps)
        return steps

    def __next__(self) -> Step:
        steps = self._begun()
        if steps is None:
            raise StopIteration
        return next(steps)

    def state_dict(self) -> dict[str, Any]:
        """Raises NotImplementedError: a dataset's position isn't kept."""
        raise NotImplementedError("a loader over a dataset has no position that can be kept")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises NotImplementedError, as `state_dict`."""
        self.state_dict()

    def _pass_over(self, feed: DatasetFeed) -> Generator[Step, None, None]:
        step: Step = []
        try:
            while True:
                batch = feed.take()
                if self._drop_last and batch.rows < self._dataset.proto_desc.batch_size:
                    continue
                step.append(self._on_place(batch, self._places[len(step)]))
                if len(step) == len(self._places):
                    yield step
                    step = []
        except EOFException:
            if step and not self._drop_last:
                yield step
        finally:
            feed.stop()

    def _on_place(self, batch: Batch, place: Place) -> dict[str, LoDTensor]:
        return {
            name: LoDTensor(tensor.to(place.device), lod)
            for name, tensor, lod in zip(
                self._dataset.names, batch.tensors, batch.lods, strict=True
            )
        }
