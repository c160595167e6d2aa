"""`InMemoryDataset`: rows are loaded once, and may be shuffled between passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refluid.core.bounds import whole_number
from refluid.core.errors import EnforceNotMet
from refluid.core.whole_threads import JoinedThread
from refluid.feed.text_datasets.exchange import exchange
from refluid.feed.text_datasets.feed import DatasetFeed, feed_from_memory
from refluid.feed.text_datasets.memory import DatasetMemory, load, load_from
from refluid.feed.text_datasets.reading import Reading, RowSource, start_reading
from refluid.fluid.datasets.lines import LineSettings
from refluid.fluid.datasets.peers import all_trainers, over_trainers


class InMemoryDataset(LineSettings):
    """Loads all rows into memory; train only after `load_into_memory`.

    Shuffles draw from NumPy's global random state: after `numpy.random.seed` they repeat.
    """

    _feed_name = "MultiSlotInMemoryDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self.queue_num: int | None = None
        self._memory: DatasetMemory | None = None
        self._preloading: _Preload | None = None
        self._shuffled = False
        self._rows_at_once = 1024
        # Seeds of the exchanges with other trainers since loading, and those to be made again.
        self._exchanges: list[list[int]] = []
        self._wanted: Mapping[str, Any] | None = None

    # -- loading --------------------------------------------------------------

    def load_into_memory(self) -> None:
        """Reads all files. Raises BadLine, UnreadableFile or PipeFailed; nothing is kept then."""
        self.release_memory()
        self._take(load(self._source(), self.usable_threads()))

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begins to read all files while the program goes on; `wait_preload_done` ends it."""
        self.release_memory()
        source, threads = self._source(), self.usable_threads(thread_num or 0)
        self._preloading = _Preload(source, threads)
        try:
            self._preloading.start()
        except BaseException:
            self._drop_preloading()
            raise

    def wait_preload_done(self) -> None:
        """Waits for `preload_into_memory`, and raises what went wrong in it."""
        if self._preloading is None:
            return
        try:
            memory = self._preloading.result()
            if memory is not None:
                self._take(memory)
        finally:
            self._drop_preloading()

    def _drop_preloading(self) -> None:
        """Ends it. It is known until it has ended: an interrupt within leaves that to be done."""
        if self._preloading is not None:
            self._preloading.drop()
            self._preloading = None

    def release_memory(self) -> None:
        """Lets go of all rows."""
        self._drop_preloading()
        self._memory = None
        self._shuffled = False
        self._exchanges = []

    def _take(self, memory: DatasetMemory) -> None:
        self._memory = memory
        if self._position.resuming:
            self._restore()

    # -- shuffling ------------------------------------------------------------

    def local_shuffle(self) -> None:
        """Puts the rows of this trainer into another order.

        Where `load_state_dict` has the next pass go on within another, they keep that one's order.
        """
        memory = self._loaded("local_shuffle")
        if not self._position.resuming:
            memory.shuffle(_seed())

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Deals the rows of all trainers of `fleet` anew among them, as many to each, in any order.

        All trainers must call it. One trainer alone: as `local_shuffle`. thread_num: Fluid's own;
        there is one thread per other trainer. Raises PeerFailed where a trainer went away or does
        not come; all rows are where they were then.
        """
        memory = self._loaded("global_shuffle")
        if fleet is None or fleet.worker_num() <= 1:
            self.local_shuffle()
        else:
            self._exchange(memory, fleet)
        self._shuffled = True

    def _exchange(self, memory: DatasetMemory, fleet: Any) -> None:
        resuming = self._position.resuming
        seeds = [list(_seed())]
        if resuming and self._wanted is not None:
            seeds = self._wanted["exchanges"][len(self._exchanges) :]
        with all_trainers(fleet, "global_shuffle") as comm:
            for seed in seeds:
                memory = DatasetMemory(exchange(memory.held, comm, seed, self._rows_at_once))
                memory.shuffle([*seed, comm.rank, 1])
        self._memory = memory
        self._exchanges += seeds
        if resuming:
            self._restore()

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
        if not self._position.resuming:
            memory.shuffle_slots([names.index(name) for name in wanted], _seed())

    # -- sizes ----------------------------------------------------------------

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """The number of rows in memory; with `fleet` those of all its trainers."""
        return over_trainers(self._memory.rows if self._memory else 0, fleet)

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """The number of rows here after `global_shuffle`; with `fleet` those of all trainers."""
        rows = self._memory.rows if self._memory and self._shuffled else 0
        return over_trainers(rows, fleet)

    def get_pv_data_size(self) -> int:
        """The number of page views: 0, as rows are not merged to page views."""
        return 0

    # -- settings -------------------------------------------------------------

    def set_feed_type(self, data_feed_type: str) -> None:
        """The name in `desc()`; rows are read as MultiSlot text in any case."""
        self.proto_desc.name = data_feed_type

    def set_queue_num(self, queue_num: int) -> None:
        """Fluid's number of queues; refluid has one, which all threads take from."""
        self.queue_num = whole_number("the number of queues", queue_num)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Rows of a message between trainers; without effect for one trainer."""
        what = "the number of rows of a message"
        self._rows_at_once = whole_number(what, fleet_send_batch_size, least=1)

    # -- for train_from_dataset -----------------------------------------------

    def feed(self, consumers: int) -> DatasetFeed:
        """A pass over the rows in memory. EnforceNotMet where they were not loaded."""
        memory = self._loaded("train_from_dataset")
        if self._position.resuming:
            self._restore(complete=True)
        self._wanted = None
        done = self._position.begin(self.filelist)
        return feed_from_memory(memory, self._shaped(), self.usable_threads(), consumers, done)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As of every dataset; the rows get the order that they had, too.

        Shuffles before the next pass leave it alone, and `global_shuffle` makes the exchanges of
        that time again.
        """
        loaded = self._position.load(state)
        if "exchanges" not in loaded:
            raise ValueError("this is the state of a QueueDataset, not of an InMemoryDataset")
        self._wanted = loaded
        if self._memory is not None and self._position.resuming:
            self._restore()

    def _order_state(self) -> dict[str, Any]:
        order = {} if self._memory is None else self._memory.order_state()
        return {"exchanges": self._exchanges, **order}

    def _restore(self, complete: bool = False) -> None:
        """Puts the rows into the loaded order, once all exchanges of that time were made."""
        wanted = self._wanted
        if wanted is None or self._memory is None:
            return
        if len(self._exchanges) == len(wanted["exchanges"]):
            self._memory.load_order(wanted)
        elif complete:
            raise EnforceNotMet(
                "the loaded state was taken after global_shuffle: call load_into_memory and "
                "global_shuffle with all trainers first, which brings back the rows of that time"
            )

    def _loaded(self, asked: str) -> DatasetMemory:
        self.wait_preload_done()
        if self._memory is None:
            raise EnforceNotMet(f"{asked}: call load_into_memory of the InMemoryDataset first")
        return self._memory


class _Preload:
    """Rows being loaded by a thread, from `start` on."""

    def __init__(self, source: RowSource, threads: int) -> None:
        self._source, self._threads = source, threads
        self._reading: Reading | None = None
        self._dropped = False
        self._found: DatasetMemory | None = None
        self._error: BaseException | None = None
        self._thread = JoinedThread(self._run, name="refluid dataset preload")

    def start(self) -> None:
        """Starts the thread, once."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._reading = start_reading(self._source)
            if not self._dropped:
                self._found = load_from(self._reading, self._threads)
        except BaseException as error:
            self._error = error

    def result(self) -> DatasetMemory | None:
        """Waits for the rows; None where an interrupt had them dropped, or came before `start`."""
        if self._dropped:
            self.drop()  # the interrupt may have come before what reads was told
            return None  # what was read until then isn't all
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def drop(self) -> None:
        """Has nothing more read."""
        self._dropped = True
        if self._reading is not None:
            self._reading.cancel()
        self._thread.join()


def _seed() -> list[int]:
    return [int(one) for one in np.random.randint(0, 2**31, 4)]
