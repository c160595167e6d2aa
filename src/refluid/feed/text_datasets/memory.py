"""Rows held in memory: shuffled as a whole, or single slots of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.feed.multislot.columns import Columns, columns_parts, join_freeing
from refluid.feed.multislot.parsing import MultiSlotParser
from refluid.feed.text_datasets.batches import BatchRows
from refluid.feed.text_datasets.done import Done, Span
from refluid.feed.text_datasets.reading import Reading, RowSource, start_reading
from refluid.feed.text_datasets.threads import gather

Order = npt.NDArray[np.int64]
# What numbers are drawn from: shuffles are kept as their seeds.
Seed = Sequence[int]


class DatasetMemory:
    """Rows, and the order in which they are given. Shuffling moves no values.

    A batch is put together when it is asked for.
    """

    def __init__(self, columns: Columns) -> None:
        self.held = columns
        self._order: Order = np.arange(columns.rows)
        self._slot_orders: dict[int, Order] = {}
        self._seed: list[int] | None = None
        self._slots: list[int] = []
        self._slots_seed: list[int] | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.held.rows

    @property
    def nbytes(self) -> int:
        """The memory that their values take."""
        return self.held.nbytes

    def shuffle(self, seed: Seed) -> None:
        """Puts the rows into an order that follows from the seed alone."""
        self._seed = list(seed)
        self._order = np.random.default_rng(self._seed).permutation(self.rows)

    def shuffle_slots(self, slots: Sequence[int], seed: Seed) -> None:
        """Gives each of these slots the values of other rows; all other slots have their own.

        What an earlier call shuffled is as loaded again.
        """
        self._slots, self._slots_seed = list(slots), list(seed)
        random = np.random.default_rng(self._slots_seed)
        self._slot_orders = {slot: random.permutation(self.rows) for slot in slots}

    def order_state(self) -> dict[str, Any]:
        """How the rows are ordered, as numbers."""
        return {
            "rows": self.rows,
            "shuffle": self._seed,
            "slots": self._slots,
            "slots_shuffle": self._slots_seed,
        }

    def load_order(self, state: Mapping[str, Any]) -> None:
        """Puts the rows into the order of `order_state`. ValueError for other rows."""
        if state["rows"] != self.rows:
            raise ValueError(
                f"the loaded state is of {state['rows']} rows in memory, but there are {self.rows}"
            )
        self._order, self._seed = np.arange(self.rows), None
        if state["shuffle"] is not None:
            self.shuffle(state["shuffle"])
        self._slot_orders = {}
        if state["slots_shuffle"] is not None:
            self.shuffle_slots(state["slots"], state["slots_shuffle"])

    def batches(self, size: int, done: Done, first: int = 0, step: int = 1) -> Iterator[BatchRows]:
        """Batch `first`, `first + step`, ... of `size` of the rows that aren't done.

        The last may be smaller.
        """
        places = done.left(0, 0, self.rows)
        for spans in islice(_cut(places, size), first, None, step):
            yield self._columns(spans), spans

    def _columns(self, spans: Sequence[Span]) -> Columns:
        order = np.concatenate([self._order[one.start : one.stop] for one in spans])
        return self.held.take(
            [
                self._slot_orders[slot][order] if slot in self._slot_orders else order
                for slot in range(len(self.held.values))
            ]
        )


def _cut(places: Iterator[tuple[int, int]], size: int) -> Iterator[tuple[Span, ...]]:
    """Intervals in groups of `size` places; the last may be smaller."""
    waiting: list[Span] = []
    short = size
    for start, stop in places:
        while start < stop:
            end = min(stop, start + short)
            waiting.append(Span(0, start, end))
            short -= end - start
            start = end
            if not short:
                yield tuple(waiting)
                waiting, short = [], size
    if waiting:
        yield tuple(waiting)


def load(source: RowSource, threads: int) -> DatasetMemory:
    """All rows of the files, read by several threads at once, in the order of the files.

    Raises BadLine, UnreadableFile or PipeFailed.
    """
    return load_from(start_reading(source), threads)


def load_from(reading: Reading, threads: int) -> DatasetMemory:
    """As `load`, of a pass that was begun; what was read is enough once it is cancelled."""
    found = gather([reading.pieces for _ in range(threads)], reading.cancel, "dataset load")
    found.sort(key=lambda piece: piece[:2])
    parts = [columns_parts(piece.columns) for piece in found]
    if not parts:
        parts = [columns_parts(MultiSlotParser(reading.source.slots).parse(b"", 0, "", 1).columns)]
    found.clear()
    return DatasetMemory(join_freeing(parts))
