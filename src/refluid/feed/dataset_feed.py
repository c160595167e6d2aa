"""`DatasetFeed`: batches of a dataset, made ahead by reader threads for training threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from refluid.feed.dataset_batches import Batch, as_batch, regroup
from refluid.feed.dataset_files import BytesRead
from refluid.feed.dataset_memory import Memory
from refluid.feed.dataset_reading import Source, start_reading
from refluid.feed.dataset_threads import Producers
from refluid.feed.multislot_columns import Columns

_AHEAD = 2


@dataclass(frozen=True)
class Shaped:
    """How rows become batches: rows per batch, and per used slot the sizes of a row or value."""

    batch_size: int
    shapes: tuple[tuple[int, ...], ...]


class DatasetFeed:
    """One pass over a dataset. Every row is in exactly one batch; always `stop`.

    bytes_read: how far the files were read; None for rows in memory.
    """

    def __init__(
        self,
        groups: Sequence[Callable[[], Iterable[Columns]]],
        shaped: Shaped,
        cancel: Callable[[], None],
        consumers: int,
        bytes_read: BytesRead | None,
    ) -> None:
        def make(rows: Callable[[], Iterable[Columns]]) -> Generator[Batch, None, None]:
            for columns in rows():
                yield as_batch(columns, shaped.shapes)

        self.bytes_read = bytes_read
        self._producers = Producers(
            [lambda rows=rows: make(rows) for rows in groups],  # type: ignore[misc]
            max(2, _AHEAD * consumers),
            cancel,
            "dataset",
            consumers,
        )

    def take(self, consumer: int = 0) -> Batch:
        """The next batch. Raises EOFException after the last one, and what reading raised."""
        batch: Batch = self._producers.take(consumer)
        return batch

    def interrupt(self) -> None:
        """Wakes whoever takes or reads, with an error or an end; `stop` still has to be called."""
        self._producers.interrupt()

    def stop(self) -> None:
        """Ends the readers; nothing of them is left."""
        self._producers.stop()


def feed_from_files(source: Source, shaped: Shaped, readers: int, consumers: int) -> DatasetFeed:
    """A pass over files by `readers` threads, each of which makes batches of what it reads.

    So each thread may end with a smaller batch. Raises UnreadableFile where one is missing.
    """
    reading = start_reading(source)

    def rows() -> Iterable[Columns]:
        return regroup(reading.columns(), shaped.batch_size)

    return DatasetFeed([rows] * readers, shaped, reading.cancel, consumers, reading.bytes_read)


def feed_from_memory(memory: Memory, shaped: Shaped, readers: int, consumers: int) -> DatasetFeed:
    """A pass over rows in memory, in their present order; `readers` threads take turns."""

    def part(reader: int) -> Callable[[], Iterable[Columns]]:
        return lambda: memory.batches(shaped.batch_size, reader, readers)

    return DatasetFeed(
        [part(reader) for reader in range(readers)], shaped, lambda: None, consumers, None
    )
