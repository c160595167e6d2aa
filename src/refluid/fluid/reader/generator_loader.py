"""`GeneratorLoader`: what `DataLoader.from_generator` returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.feed.queue import BlockingQueue
from refluid.feed.sample_columns import Field
from refluid.fluid.reader.base import DataLoaderBase, current_place, presenter
from refluid.fluid.reader.generators import GeneratorSource
from refluid.fluid.reader.passes import Passes
from refluid.fluid.reader.programs import join_program
from refluid.ir.variable import Variable

_log = logging.getLogger("refluid")
Generator = Callable[[], Iterable[Any]]


class GeneratorLoader(DataLoaderBase):
    """Feeds from a generator that a thread (or a process) iterates ahead of the model.

    feed_list: the variables that are fed. capacity: batches read ahead. iterable: whether it is
    iterated; if not, operators are put into the program that read from it, and `start` and
    `reset` begin and end a pass. return_list: items are lists of tensors instead of dicts.
    drop_last: leaves out batches at the end that don't suffice for all places.
    use_double_buffer: for a GPU, the next batches are copied while it computes.
    Raises ValueError without a capacity.
    """

    _multiprocess = False

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        drop_last: bool = True,
    ) -> None:
        super().__init__()
        if capacity is None:
            raise ValueError("Please give value to capacity.")
        self._feed_list = None if feed_list is None else list(feed_list)
        self._iterable = iterable
        self._use_double_buffer = use_double_buffer
        self._present = presenter(feed_list, return_list)
        if iterable:
            assert feed_list is not None or return_list, (
                "feed_list should be set when return_list=False"
            )
            self._passes = Passes(self._title(), capacity, drop_last=drop_last)
        else:
            assert feed_list is not None, "feed_list should be set when iterable=False"
            self._passes = Passes("", capacity)
            self._passes.pinned = use_double_buffer
            join_program(self._passes.reader, self._feed_list or [], use_double_buffer)

    def _title(self) -> str:
        return f"DataLoader({', '.join(var.name for var in self._feed_list or ())})"

    @property
    def queue(self) -> BlockingQueue:
        """The queue of batches read ahead: `size()`, `capacity()`."""
        return self._passes.reader.queue

    @property
    def iterable(self) -> bool:
        """Whether the loader is iterated."""
        return self._iterable

    def __call__(self) -> Any:
        """A new pass; the loader itself where it has nothing to iterate yet."""
        return self if self._passes.begin is None else self.__iter__()

    def __iter__(self) -> Any:
        assert self._iterable, "DataLoader is not iterable"
        assert self._passes.begin is not None, "Data source of DataLoader has not set yet"
        present = self._present
        return self._begin(lambda step: present(self._on_places(step)))

    def start(self) -> None:
        """Begins a pass, before the program is run. Only if not iterable."""
        assert not self._iterable, "start() cannot be called when DataLoader is iterable"
        self._passes.start()

    def reset(self) -> None:
        """Ends the pass; `core.EOFException` says that it is at its end. Only if not iterable."""
        assert not self._iterable, "reset() cannot be called when DataLoader is iterable"
        self._passes.reset()

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Takes samples from `reader()`: a tuple or list of one value per variable each.

        batch_size: samples per batch. drop_last: leaves out a last batch that is smaller.
        places: of the batches; needed if the loader is iterable. Returns the loader.
        """
        assert batch_size > 0, "batch_size must be larger than 0"
        self._generators(places).set_samples(reader, batch_size, drop_last)
        return self

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Takes batches from `reader()` as lists of samples, as `paddle.batch` makes them."""
        self._generators(places).set_sample_lists(reader)
        return self

    def set_batch_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Takes batches from `reader()`: an array or LoDTensor per variable."""
        self._generators(places).set_batches(reader)
        return self

    def _generators(self, places: Any) -> GeneratorSource:
        if self._iterable:
            assert places is not None, "Places cannot be None when DataLoader is iterable"
            self._set_places(places, self._use_double_buffer)
        fields = None if self._feed_list is None else [Field.of(var) for var in self._feed_list]
        return GeneratorSource(self._passes, fields, self._multiprocess)


class ProcessGeneratorLoader(GeneratorLoader):
    """As GeneratorLoader; the generator runs in a process of its own."""

    _multiprocess = True


class DygraphGeneratorLoader(GeneratorLoader):
    """Feeds layers that run at once: it is always iterated, and gives lists of variables.

    Without places its batches are on the one that operators run on. feed_list says nothing here.
    use_multiprocess: the generator runs in a process of its own.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = True,
        use_multiprocess: bool = False,
    ) -> None:
        if not iterable:
            _log.warning("a DataLoader of dygraph is iterated; iterable=False has no effect")
        if not return_list:
            _log.warning("a DataLoader of dygraph gives lists; return_list=False has no effect")
        super().__init__(None, capacity, use_double_buffer, return_list=True, drop_last=False)
        self._multiprocess = use_multiprocess

    def _generators(self, places: Any) -> GeneratorSource:
        return super()._generators(current_place() if places is None else places)
