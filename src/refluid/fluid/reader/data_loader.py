"""`DataLoader`: batches of a dataset, or of a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.build import at_once
from refluid.core.bounds import MOST_PROCESSES, whole_number
from refluid.core.places import CPUPlace
from refluid.engine.choices import chosen
from refluid.engine.knobs import KnobScope
from refluid.feed.batches import Column, as_column
from refluid.feed.datasets import (
    BatchSampler,
    Dataset,
    IterableDataset,
    Loading,
    default_collate_fn,
)
from refluid.fluid.reader.base import DataLoaderBase, current_place, presenter
from refluid.fluid.reader.generator_loader import (
    DygraphGeneratorLoader,
    GeneratorLoader,
    ProcessGeneratorLoader,
)
from refluid.fluid.reader.passes import Passes
from refluid.ir.variable import Variable

_AHEAD = 2


class DataLoader(DataLoaderBase):
    """Iterates the batches of a dataset.

    dataset: with `__getitem__` and `__len__` (see `Dataset`), or an `IterableDataset`.
    feed_list: the variables that are fed; needed unless return_list. places: a batch for each is
    given at once. batch_sampler: gives the sample numbers of each batch, instead of batch_size,
    shuffle and drop_last. collate_fn: makes a batch of a list of samples. num_workers: processes
    that load samples; what they return goes through shared memory. use_buffer_reader: batches are
    read ahead, for a GPU copied to it. use_shared_memory: shared memory is always used, whatever
    is said here, and needs no /dev/shm. timeout: seconds to wait for a batch of a worker; 0 for
    ever. worker_init_fn: called in each worker with its number.

    In workers, random numbers follow from `numpy.random` at the begin of the pass and from the
    number of the batch, so they don't depend on the number of workers.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Variable] | None = None,
        places: Any = None,
        return_list: bool = False,
        batch_sampler: Iterable[list[int]] | None = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        use_shared_memory: bool = True,
        timeout: int = 0,
        worker_init_fn: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        assert return_list or feed_list is not None or at_once(), (
            "feed_list should be set when return_list=False"
        )
        assert num_workers >= 0, f"num_workers should be a non-negative value, not {num_workers}"
        num_workers = chosen(KnobScope.LOADER).get("num_workers", num_workers)
        num_workers = whole_number("num_workers", num_workers, MOST_PROCESSES)
        assert timeout >= 0, f"timeout should be a non-negative value, not {timeout}"
        self.dataset = dataset
        self.batch_sampler = _sampler(dataset, batch_sampler, batch_size, shuffle, drop_last)
        self._present = presenter(feed_list, return_list)
        title = f"DataLoader({type(dataset).__name__})"
        capacity = _AHEAD if use_buffer_reader else 1
        self._passes = Passes(title, capacity, drop_last=drop_last)
        fresh = collate_fn is None and batch_size is not None
        self._passes.copied = num_workers == 0 and not fresh
        self._set_places(_place(places), use_buffer_reader)
        loading = Loading(
            title,
            dataset,
            self.batch_sampler,
            batch_size,
            drop_last,
            _Converting(collate_fn or default_collate_fn, batch_size is None),
            num_workers,
            worker_init_fn,
            timeout or None,
            lend=(capacity + 2) * len(self._places) + _AHEAD,
        )
        self._passes.begin = loading.start

    def __len__(self) -> int:
        """The number of batches of a pass. TypeError for an `IterableDataset`."""
        if self.batch_sampler is None:
            raise TypeError("a DataLoader of an IterableDataset has no length")
        return len(self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        present = self._present
        return self._begin(lambda step: present(self._on_places(step)))

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader that is given a generator afterwards; arguments as of `GeneratorLoader`.

        use_multiprocess: the generator runs in a process of its own, so that it doesn't take
        time from the training process; arrays come back through shared memory.
        """
        if at_once():
            return DygraphGeneratorLoader(
                feed_list, capacity, use_double_buffer, iterable, True, use_multiprocess
            )
        said = chosen(KnobScope.READER)
        capacity = said.get("capacity", capacity)
        use_double_buffer = said.get("use_double_buffer", use_double_buffer)
        use_multiprocess = said.get("use_multiprocess", use_multiprocess)
        kind = ProcessGeneratorLoader if use_multiprocess else GeneratorLoader
        return kind(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)

    @staticmethod
    def from_dataset(dataset: Any, places: Any, drop_last: bool = True) -> DataLoaderBase:
        """A loader over an `InMemoryDataset` or `QueueDataset`; see `DatasetLoader`."""
        # Imported here because it loads the compiled parser, which few programs need.
        from refluid.fluid.reader.dataset_loader import DatasetLoader

        return DatasetLoader(dataset, places, drop_last)


def _place(places: Any) -> Any:
    """The places that are given, else where operators run at once, else the processor."""
    if places is not None:
        return places
    return current_place() or CPUPlace()


class _Converting:
    """Makes columns of a list of samples. batched: what it is given is a batch already."""

    def __init__(self, collate: Callable[[list[Any]], Any], batched: bool) -> None:
        self._collate = collate
        self._batched = batched and collate is default_collate_fn

    def __call__(self, samples: Any) -> list[Column]:
        made = samples if self._batched else self._collate(samples)
        return [as_column(one) for one in (made if isinstance(made, list | tuple) else [made])]


def _sampler(
    dataset: Any,
    batch_sampler: Iterable[list[int]] | None,
    batch_size: int | None,
    shuffle: bool,
    drop_last: bool,
) -> Iterable[list[int]] | None:
    if isinstance(dataset, IterableDataset):
        assert batch_sampler is None and not shuffle, (
            "an IterableDataset decides the order itself: no batch_sampler, no shuffle"
        )
        return None
    assert isinstance(dataset, Dataset) or hasattr(dataset, "__getitem__"), (
        f"dataset should be an instance of paddle.io.Dataset, not {type(dataset).__name__}"
    )
    if batch_sampler is not None:
        assert batch_size in (1, None) and not shuffle and not drop_last, (
            "batch_size, shuffle and drop_last should not be set when batch_sampler is given"
        )
        return batch_sampler
    assert batch_size is not None and batch_size > 0, (
        "batch_size should be a positive integer when batch_sampler is not given"
    )
    return BatchSampler(dataset, None, shuffle, batch_size, drop_last)
