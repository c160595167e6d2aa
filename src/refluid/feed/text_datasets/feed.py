"""`DatasetFeed`: batches of a dataset, made ahead by reader threads for training threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass

from refluid.feed.text_datasets.batches import Batch, BatchRows, as_batch, regroup
from refluid.feed.text_datasets.done import Done
from refluid.feed.text_datasets.files import BytesRead
from refluid.feed.text_datasets.memory import DatasetMemory
from refluid.feed.text_datasets.reading import RowSource, start_reading
from refluid.feed.text_datasets.threads import Producers

_AHEAD = 2


@dataclass(frozen=True)
class Shaped:
    """How rows become batches: rows per batch, and per used slot the sizes of a row or value."""

    batch_size: int
    shapes: tuple[tuple[int, ...], ...]


class DatasetFeed:
    """One pass over a dataset, from `start` on. Every row is in exactly one batch; always `stop`.

    done: where to note the rows of batches that were trained. bytes_read: how far the files were
    read; None for rows in memory, of which `total` is the number.
    """

    def __init__(
        self,
        groups: Sequence[Callable[[], Iterable[BatchRows]]],
        shaped: Shaped,
        cancel: Callable[[], None],
        consumers: int,
        done: Done,
        bytes_read: BytesRead | None,
        total: int | None = None,
    ) -> None:
        def make(rows: Callable[[], Iterable[BatchRows]]) -> Generator[Batch, None, None]:
            for group in rows():
                yield as_batch(group, shaped.shapes)

        self.done = done
        self.bytes_read = bytes_read
        self._total = total
        self._earlier = done.rows
        self._producers = Producers(
            [lambda rows=rows: make(rows) for rows in groups],  # type: ignore[misc]
            max(2, _AHEAD * consumers),
            cancel,
            "dataset",
            consumers,
        )

    def start(self) -> None:
        """Starts the readers, once."""
        self._producers.start()

    def take(self, consumer: int = 0) -> Batch:
        """The next batch. Raises EOFException after the last one, and what reading raised."""
        batch: Batch = self._producers.take(consumer)
        return batch

    def peek(self) -> Batch | None:
        """The batch that is probably taken next, where it is there already."""
        found: Batch | None = self._producers.peek()
        return found

    @property
    def rows(self) -> int:
        """The rows that were trained in this pass, without those of an earlier run."""
        return self.done.rows - self._earlier

    @property
    def unit(self) -> str:
        """What `share` is a part of."""
        return "rows" if self.bytes_read is None else "bytes"

    @property
    def share(self) -> float | None:
        """The part of the bytes that was read, or of rows in memory trained; None if unknown."""
        if self.bytes_read is not None:
            return self.bytes_read.share
        return self.done.rows / self._total if self._total else None

    def interrupt(self) -> None:
        """Wakes whoever takes or reads, with an error or an end; `stop` still has to be called."""
        self._producers.interrupt()

    def stop(self) -> None:
        """Ends the readers; nothing of them is left."""
        self._producers.stop()


def feed_from_files(
    source: RowSource, shaped: Shaped, readers: int, consumers: int, done: Done | None = None
) -> DatasetFeed:
    """A pass over files by `readers` threads, each of which makes batches of what it reads.

    So each thread may end with a smaller batch. done: rows that are left out. Raises
    UnreadableFile where a file is missing.
    """
    done = Done() if done is None else done
    reading = start_reading(source, done)

    def rows() -> Iterable[BatchRows]:
        return regroup(reading.pieces(), shaped.batch_size)

    made = [rows] * readers
    return DatasetFeed(made, shaped, reading.cancel, consumers, done, reading.bytes_read)


def feed_from_memory(
    memory: DatasetMemory, shaped: Shaped, readers: int, consumers: int, done: Done | None = None
) -> DatasetFeed:
    """A pass over rows in memory, in their present order; `readers` threads take turns.

    done: places in that order that are left out.
    """
    done = Done() if done is None else done
    earlier = Done.load(done.state())

    def part(reader: int) -> Callable[[], Iterable[BatchRows]]:
        return lambda: memory.batches(shaped.batch_size, earlier, reader, readers)

    made = [part(reader) for reader in range(readers)]
    return DatasetFeed(made, shaped, lambda: None, consumers, done, None, memory.rows)
