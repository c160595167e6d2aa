"""Decorators whose threads read ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from refluid.core.bounds import MOST_THREADS, whole_number
from refluid.core.errors import EOFException
from refluid.core.whole_threads import begin
from refluid.feed.closing import ClosingIterator
from refluid.feed.decorators.arranging import Reader
from refluid.feed.queue import BlockingQueue


def buffered(reader: Reader, size: int) -> Reader:
    """Reads up to `size` samples ahead in a thread, in order.

    What `reader` raises is raised to the consumer after the samples before it. A consumer that
    stops early stops the thread.
    """

    capacity = max(whole_number("the size of a buffer", size), 1)

    def ahead() -> Generator[Any, None, None]:
        samples = BlockingQueue(capacity)
        thread = threading.Thread(
            target=_fill,
            args=(reader, samples, samples.reopen()),
            name="paddle.reader.buffered",
            daemon=True,
        )
        try:
            begin(thread)
            while True:
                yield samples.pop(repeating=False)
        except EOFException:
            return
        finally:
            samples.kill()

    return lambda: ClosingIterator(ahead())


def _fill(reader: Reader, samples: BlockingQueue, ticket: int) -> None:
    try:
        for sample in reader():
            if not samples.push(sample, ticket):
                return
        samples.close(ticket)
    except BaseException as error:
        reason = error
        samples.fail(lambda: reason, ticket)


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: Reader,
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> Reader:
    """`mapper` of each sample, computed by `process_num` threads.

    buffer_size: samples that are read ahead. order: samples keep their order; without, those
    come first that are ready first. What `mapper` or `reader` raises is raised to the consumer.
    """
    from refluid.feed.mapping import parallel_map  # few programs map in threads

    threads = whole_number("process_num", process_num, MOST_THREADS)
    ahead = whole_number("buffer_size", buffer_size) + threads

    def mapped() -> Iterator[Any]:
        return parallel_map(mapper, reader, threads, ahead, order)

    return mapped
