"""`AsyncExecutor`: Fluid's first way to train on files, kept for old scripts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from refluid.core.places import CPUPlace, CUDAPlace
from refluid.fluid.data_feed_desc import DataFeedDesc
from refluid.fluid.datasets.base import DatasetBase
from refluid.fluid.datasets.slots import slots_of_desc
from refluid.fluid.executor import Executor
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = ["AsyncExecutor"]

_LOGGER = logging.getLogger("refluid")


class AsyncExecutor:
    """Trains a program on files described by a `DataFeedDesc`.

    New scripts use `Executor.train_from_dataset`, which does the same. run_mode: only "" (one
    trainer); others raise NotImplementedError.
    """

    def __init__(self, place: CPUPlace | CUDAPlace | None = None, run_mode: str = "") -> None:
        if run_mode:
            raise NotImplementedError(
                f"refluid's AsyncExecutor runs on one machine only, not with run_mode={run_mode!r}"
            )
        self._executor = Executor(place)

    def run(
        self,
        program: Program | None,
        data_feed: DataFeedDesc,
        filelist: Sequence[str] | str,
        thread_num: int,
        fetch: Sequence[Variable | str] | Variable | str,
        mode: str = "",
        debug: bool = False,
    ) -> None:
        """One pass over the files by `thread_num` threads that share the parameters.

        fetch: variables that are printed every 100 batches. Raises TypeError for a data_feed that
        is no DataFeedDesc, and what `Executor.train_from_dataset` raises.
        """
        if not isinstance(data_feed, DataFeedDesc):
            raise TypeError(f"data_feed must be a DataFeedDesc, not {type(data_feed).__name__}")
        if mode:
            raise NotImplementedError(
                f"refluid's AsyncExecutor runs on one machine only, not with mode={mode!r}"
            )
        dataset = _DescribedDataset(data_feed)
        dataset.set_filelist([filelist] if isinstance(filelist, str) else filelist)
        dataset.set_thread(thread_num)
        shown: Any = [fetch] if isinstance(fetch, Variable | str) else fetch
        self._executor.train_from_dataset(program, dataset, debug=debug, fetch_list=shown)


class _DescribedDataset(DatasetBase):
    """The dataset that a DataFeedDesc describes."""

    def __init__(self, data_feed: DataFeedDesc) -> None:
        super().__init__()
        self.proto_desc.CopyFrom(data_feed.proto_desc)
        self._fed = slots_of_desc(data_feed.proto_desc)
        unused = [fed.slot.name for fed in self._fed if not fed.slot.used]
        if len(unused) == len(self._fed):
            raise ValueError("no slot of the DataFeedDesc is used: call set_use_slots")
        if unused:
            _LOGGER.info("slots that are skipped: %s", ", ".join(unused))
