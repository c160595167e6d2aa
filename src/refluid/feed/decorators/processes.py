"""`multiprocess_reader`: each reader in a process of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from refluid.core.bounds import MOST_PROCESSES, whole_number
from refluid.feed.closing import ClosingIterator
from refluid.feed.decorators.arranging import Reader


def multiprocess_reader(
    readers: Sequence[Reader],
    use_pipe: bool = True,  # noqa: ARG001
    queue_size: int = 1000,
) -> Reader:
    """The samples of several readers, each read in a process of its own, as they come.

    queue_size: samples that the processes together may be ahead. use_pipe chose between two
    transports in Fluid; here both are the same one: small samples through a socket, arrays through
    shared memory, without need of /dev/shm. Raises AssertionError unless given a list of readers,
    to the consumer ValueError for a sample that is None, what a reader raised, and WorkerDied
    where a process was killed.
    """
    assert isinstance(readers, list | tuple), "readers must be a list of reader creators"
    assert len(readers) > 0, "multiprocess_reader needs at least one reader"

    processes = whole_number("the number of readers", len(readers), MOST_PROCESSES)
    ahead = max(whole_number("queue_size", queue_size) // processes, 1)
    from refluid.feed.workers import Stream  # which most programs don't use

    def merged() -> Generator[Any, None, None]:
        makes = [_checked(reader) for reader in readers]
        yield from Stream("multiprocess_reader", makes, ahead, rotate=False).items()

    return lambda: ClosingIterator(merged())


def _checked(reader: Reader) -> Reader:
    def samples() -> Iterator[Any]:
        for sample in reader():
            if sample is None:
                raise ValueError("sample has None")
            yield sample

    return samples
