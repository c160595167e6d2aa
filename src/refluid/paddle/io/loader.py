"""`paddle.io.DataLoader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.build import at_once
from refluid.fluid.reader.data_loader import DataLoader as FluidDataLoader
from refluid.ir.variable import Variable
from refluid.paddle.framework.devices import as_place


class DataLoader(FluidDataLoader):
    """Iterates the batches of a dataset, as `fluid.io.DataLoader`; each is a list by default.

    prefetch_factor, persistent_workers: change nothing here: how far workers go ahead is bounded
    by memory, and they stay for the pass.
    """

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Variable] | None = None,
        places: Any = None,
        return_list: bool = True,
        batch_sampler: Iterable[list[int]] | None = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: int = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        listed = places if isinstance(places, list | tuple) else [places]
        super().__init__(
            dataset,
            feed_list,
            None if places is None else [as_place(one) for one in listed],
            return_list,
            batch_sampler,
            batch_size,
            shuffle,
            drop_last,
            collate_fn,
            num_workers,
            use_buffer_reader,
            use_shared_memory,
            timeout,
            worker_init_fn,
        )
        if return_list and len(self._places) == 1 and not at_once():
            self._present = _only


def _only(step: list[Any]) -> Any:
    """The batch of the one place."""
    return step[0]
