"""`PyReader`: the older name of the generator loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.build import at_once
from refluid.feed.queue import BlockingQueue
from refluid.fluid.reader.base import DataLoaderBase
from refluid.fluid.reader.generator_loader import DygraphGeneratorLoader, GeneratorLoader
from refluid.ir.variable import Variable

Generator = Callable[[], Iterable[Any]]


class PyReader(DataLoaderBase):
    """Feeds from a generator that a thread iterates ahead of the model.

    Arguments as of `DataLoader.from_generator`.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__()
        kind = DygraphGeneratorLoader if at_once() else GeneratorLoader
        self._loader = kind(feed_list, capacity, use_double_buffer, iterable, return_list)
        self._passes = self._loader._passes

    @property
    def queue(self) -> BlockingQueue:
        """The queue of batches read ahead: `size()`, `capacity()`."""
        return self._loader.queue

    @property
    def iterable(self) -> bool:
        """Whether the reader is iterated."""
        return self._loader.iterable

    def __iter__(self) -> Any:
        return self._loader.__iter__()

    def __next__(self) -> Any:
        return self._loader.__next__()

    def start(self) -> None:
        """Begins a pass, before the program is run. Only if not iterable."""
        self._loader.start()

    def reset(self) -> None:
        """Ends the pass. Only if not iterable."""
        self._loader.reset()

    def decorate_sample_generator(
        self,
        sample_generator: Generator,
        batch_size: int,
        drop_last: bool = True,
        places: Any = None,
    ) -> None:
        """Takes single samples: see `DataLoader.set_sample_generator`."""
        self._loader.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Generator, places: Any = None) -> None:
        """Takes lists of samples, as `paddle.batch` makes them."""
        self._loader.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Generator, places: Any = None) -> None:
        """Takes batches: an array or LoDTensor per variable."""
        self._loader.set_batch_generator(reader, places)
