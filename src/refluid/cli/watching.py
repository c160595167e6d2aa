"""`refluid run --watch`: whether the readers keep the model busy, live and as a summary."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from refluid.cli.console import messages
from refluid.feed.statistics import (
    BALANCED,
    COMPUTE_BOUND,
    READER_BOUND,
    ReaderStatistics,
    Snapshot,
    measured,
)

_PERIOD = 5.0
_ADVICE = {
    READER_BOUND: (
        "the model waits for data: prepare them in processes (use_multiprocess=True, "
        "num_workers), leave work to the program (uint8 images), or make the generator faster"
    ),
    COMPUTE_BOUND: "the readers keep up: a faster step is the only thing that helps",
    BALANCED: "readers and model are about as fast as each other",
}


@contextmanager
def watching(period: float = _PERIOD) -> Iterator[None]:
    """Within the block, says every `period` seconds how each reader that gave batches did; at
    the end how each did altogether, and what follows."""
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(done, period), name="refluid watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _summarise()


def _watch(done: threading.Event, period: float) -> None:
    earlier: dict[ReaderStatistics, Snapshot] = {}
    while not done.wait(period):
        now = measured()
        for reader, snapshot in now.items():
            recent = snapshot.since(earlier[reader]) if reader in earlier else snapshot
            if recent.consumed:
                _say(str(recent))
        earlier = now


def _summarise() -> None:
    for snapshot in measured().values():
        _say(f"{snapshot}, {snapshot.warmup:.3g} s until the first batches")
        if snapshot.verdict in _ADVICE:
            _say(f"{snapshot.verdict}: {_ADVICE[snapshot.verdict]}")


def _say(text: str) -> None:
    messages().print(f"refluid: {text}", markup=False, soft_wrap=True)
