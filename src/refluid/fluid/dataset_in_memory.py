"""`InMemoryDataset`: rows are loaded once, and may be shuffled between passes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.core.errors import EnforceNotMet
from refluid.feed.dataset_feed import DatasetFeed, feed_from_memory
from refluid.feed.dataset_memory import Memory, load
from refluid.fluid.dataset_base import DatasetBase

# What only Baidu's advertising systems used, and what to say where it is asked for.
_LEFT_OUT = "refluid has no merging of rows by {}: merge them in the data generator"


class InMemoryDataset(DatasetBase):
    """Loads all rows into memory; train only after `load_into_memory`.

    Shuffles draw from NumPy's global random state: after `numpy.random.seed` they repeat.
    """

    _feed_name = "MultiSlotInMemoryDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self.queue_num: int | None = None
        self._memory: Memory | None = None
        self._preloading: _Preload | None = None
        self._shuffled = False
        self._leading_set: dict[str, bool] = {}

    # -- loading --------------------------------------------------------------

    def load_into_memory(self) -> None:
        """Reads all files. Raises BadLine, UnreadableFile or PipeFailed; nothing is kept then."""
        self.release_memory()
        self._memory = load(self._source(), self.usable_threads())

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begins to read all files while the program goes on; `wait_preload_done` ends it."""
        self.release_memory()
        source, threads = self._source(), self.usable_threads(thread_num or 0)
        self._preloading = _Preload(lambda: load(source, threads))

    def wait_preload_done(self) -> None:
        """Waits for `preload_into_memory`, and raises what went wrong in it."""
        if self._preloading is not None:
            preloading, self._preloading = self._preloading, None
            self._memory = preloading.result()

    def release_memory(self) -> None:
        """Lets go of all rows."""
        if self._preloading is not None:
            preloading, self._preloading = self._preloading, None
            preloading.drop()
        self._memory = None
        self._shuffled = False

    # -- shuffling ------------------------------------------------------------

    def local_shuffle(self) -> None:
        """Puts the rows of this trainer into another order."""
        self._loaded("local_shuffle").shuffle(_random())

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Shuffles the rows of all trainers of `fleet` among them; of one alone as local_shuffle.

        Raises NotImplementedError for several trainers.
        """
        if fleet is not None and fleet.worker_num() > 1:
            raise NotImplementedError(
                "refluid can't exchange rows between trainers yet: give each trainer its own part "
                "of the files and use local_shuffle"
            )
        self._loaded("global_shuffle").shuffle(_random())
        self._shuffled = True

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Gives each row the values of another row in these slots, to see what they matter.

        The slots of an earlier call are as loaded again. Needs `set_fea_eval`. Raises ValueError
        for a slot that isn't used, EnforceNotMet without `set_fea_eval`.
        """
        if not self._fea_eval:
            raise EnforceNotMet("slots_shuffle needs set_fea_eval(record_candidate_size, True)")
        memory, names = self._loaded("slots_shuffle"), self.names
        wanted = [slots] if isinstance(slots, str) else list(slots)
        for name in wanted:
            if name not in names:
                raise ValueError(f"slots_shuffle: there is no slot {name!r}, only {names}")
        memory.shuffle_slots([names.index(name) for name in wanted], _random())

    # -- sizes ----------------------------------------------------------------

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """The number of rows in memory; with `fleet` those of all its trainers."""
        return _over_trainers(self._memory.rows if self._memory else 0, fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """The number of rows here after `global_shuffle`; with `fleet` those of all trainers."""
        rows = self._memory.rows if self._memory and self._shuffled else 0
        return _over_trainers(rows, fleet)

    def get_pv_data_size(self) -> int:
        """The number of page views: 0, as rows are not merged to page views."""
        return 0

    # -- settings -------------------------------------------------------------

    def set_feed_type(self, data_feed_type: str) -> None:
        """The name in `desc()`; rows are read as MultiSlot text in any case."""
        self.proto_desc.name = data_feed_type

    def set_queue_num(self, queue_num: int) -> None:
        """Fluid's number of queues; refluid has one, which all threads take from."""
        self.queue_num = queue_num

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Whether each line begins with `1 id`, which is skipped."""
        self._lead("ins_id", parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Whether `1 content` follows (after the id), which is skipped."""
        self._lead("content", parse_content)

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Whether `1 logkey` follows (after id and content), which is skipped."""
        self._lead("logkey", parse_logkey)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Rows that trainers exchange at once; without effect for one trainer."""

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """Fluid's pause between exchanges; without effect."""

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Merging rows of one id; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("line id")

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Merging rows of one search; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("search id") if merge_by_sid else ""

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Merging rows to page views; loading raises NotImplementedError."""
        self._merging = _LEFT_OUT.format("page view") if enable_pv_merge else ""

    def set_current_phase(self, current_phase: int) -> None:
        """1 joins page views, which refluid doesn't have; 0 is training on rows."""
        if current_phase:
            raise NotImplementedError(_LEFT_OUT.format("page view"))

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Collecting ids for Baidu's servers; without effect."""

    def generate_local_tables_unlock(
        self,
        table_id: int,
        fea_dim: int,
        read_thread_num: int,
        consume_thread_num: int,
        shard_num: int,
    ) -> None:
        """For Baidu's servers: raises NotImplementedError."""
        raise NotImplementedError("refluid has no tables of pslib servers")

    def preprocess_instance(self) -> None:
        """Merging rows to page views: raises NotImplementedError."""
        raise NotImplementedError(_LEFT_OUT.format("page view"))

    def postprocess_instance(self) -> None:
        """Parting page views into rows: raises NotImplementedError."""
        raise NotImplementedError(_LEFT_OUT.format("page view"))

    # -- for train_from_dataset -----------------------------------------------

    def feed(self, consumers: int) -> DatasetFeed:
        """Starts a pass over the rows in memory. EnforceNotMet where they were not loaded."""
        memory = self._loaded("train_from_dataset")
        return feed_from_memory(memory, self._shaped(), self.usable_threads(), consumers)

    def _loaded(self, asked: str) -> Memory:
        self.wait_preload_done()
        if self._memory is None:
            raise EnforceNotMet(f"{asked}: call load_into_memory of the InMemoryDataset first")
        return self._memory

    _merging = ""

    def _lead(self, name: str, present: bool) -> None:
        self._leading_set[name] = bool(present)
        self._leading = [
            one for one in ("ins_id", "content", "logkey") if self._leading_set.get(one)
        ]

    def _source(self) -> Any:
        if self._merging:
            raise NotImplementedError(self._merging)
        return super()._source()


class _Preload:
    """Rows being loaded by a thread."""

    def __init__(self, make: Any) -> None:
        self._found: Memory | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(make,), name="refluid dataset preload", daemon=True
        )
        self._thread.start()

    def _run(self, make: Any) -> None:
        try:
            self._found = make()
        except BaseException as error:
            self._error = error

    def result(self) -> Memory:
        """Waits for the rows."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def drop(self) -> None:
        """Waits until nothing is read any more."""
        self._thread.join()


def _random() -> np.random.Generator:
    return np.random.default_rng(np.random.randint(0, 2**31, 4))


def _over_trainers(rows: int, fleet: Any) -> int:
    """The sum over all trainers of `fleet`."""
    if fleet is None or fleet.worker_num() <= 1:
        return rows
    found = np.array([rows], np.int64)
    total = np.zeros_like(found)
    fleet._role_maker._all_reduce(found, total)
    return int(total[0])
