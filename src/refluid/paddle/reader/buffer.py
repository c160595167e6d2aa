"""`buffered`: a thread reads ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Full, Queue
from typing import Any

_STOP_CHECK_SECONDS = 0.1


@dataclass(frozen=True)
class _End:
    """Follows the last sample; carries what the reader raised."""

    error: BaseException | None = None


def buffered(reader: Callable[[], Iterator[Any]], size: int) -> Callable[[], Iterator[Any]]:
    """Reads up to `size` samples ahead in a thread, in order.

    What `reader` raises is raised to the consumer after the samples before it. A consumer that
    stops early stops the thread.
    """

    def ahead() -> Iterator[Any]:
        samples: Queue[Any] = Queue(maxsize=size)
        stopped = threading.Event()
        worker = threading.Thread(
            target=_fill,
            args=(reader, samples, stopped),
            name="paddle.reader.buffered",
            daemon=True,
        )
        worker.start()
        try:
            while not isinstance(sample := samples.get(), _End):
                yield sample
            if sample.error is not None:
                raise sample.error
        finally:
            stopped.set()

    return ahead


def _fill(
    reader: Callable[[], Iterator[Any]], samples: Queue[Any], stopped: threading.Event
) -> None:
    end = _End()
    try:
        for sample in reader():
            if not _put(samples, sample, stopped):
                return
    except BaseException as error:
        end = _End(error)
    _put(samples, end, stopped)


def _put(samples: Queue[Any], sample: Any, stopped: threading.Event) -> bool:
    """False where the consumer has gone."""
    while not stopped.is_set():
        try:
            samples.put(sample, timeout=_STOP_CHECK_SECONDS)
            return True
        except Full:
            continue
    return False
