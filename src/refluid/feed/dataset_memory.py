"""Rows held in memory: shuffled as a whole, or single slots of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from refluid.feed.dataset_reading import Piece, Source, start_reading
from refluid.feed.dataset_threads import gather
from refluid.feed.multislot import MultiSlotParser
from refluid.feed.multislot_columns import Columns, columns_parts, join_freeing

Order = npt.NDArray[np.int64]


class Memory:
    """Rows, and the order in which they are given. Shuffling moves no values.

    A batch is put together when it is asked for.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._order: Order = np.arange(columns.rows)
        self._slot_orders: dict[int, Order] = {}

    @property
    def rows(self) -> int:
        """How many there are."""
        return self._columns.rows

    @property
    def nbytes(self) -> int:
        """The memory that their values take."""
        return self._columns.nbytes

    def shuffle(self, random: np.random.Generator) -> None:
        """Puts the rows into another order."""
        random.shuffle(self._order)

    def shuffle_slots(self, slots: Sequence[int], random: np.random.Generator) -> None:
        """Gives each of these slots the values of other rows; all other slots have their own.

        What an earlier call shuffled is as loaded again.
        """
        self._slot_orders = {slot: random.permutation(self.rows) for slot in slots}

    def batches(self, size: int, first: int = 0, step: int = 1) -> Iterator[Columns]:
        """Batch `first`, `first + step`, ... of `size` rows each; the last may be smaller."""
        for start in range(first * size, self.rows, step * size):
            yield self.columns(start, start + size)

    def columns(self, start: int = 0, stop: int | None = None) -> Columns:
        """The rows in places start to stop - 1 of the present order."""
        order = self._order[start:stop]
        return self._columns.take(
            [
                self._slot_orders[slot][order] if slot in self._slot_orders else order
                for slot in range(len(self._columns.values))
            ]
        )


def load(source: Source, threads: int) -> Memory:
    """All rows of the files, read by several threads at once, in the order of the files.

    Raises BadLine, UnreadableFile or PipeFailed.
    """
    reading = start_reading(source)
    found = gather([reading.pieces for _ in range(threads)], reading.cancel, "dataset load")
    parts = [columns_parts(columns) for _, _, columns in sorted(found, key=_place)]
    if not parts:
        parts = [columns_parts(MultiSlotParser(source.slots).parse(b"", 0, "", 1).columns)]
    found.clear()
    return Memory(join_freeing(parts))


def _place(piece: Piece) -> tuple[int, int]:
    return piece[:2]
