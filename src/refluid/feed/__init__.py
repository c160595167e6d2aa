"""Readers that prepare data while the model trains.

A `QueueReader` is a bounded queue, a thread that fills it and what was measured about both. Data
come from a generator in this process, or from worker processes that write them into shared memory.
Everything here works without a program: `fluid.reader` joins readers and programs.
"""

from refluid.feed.errors import NotStarted, ReaderFailed, WorkerDied
from refluid.feed.queue import BlockingQueue
from refluid.feed.reader import QueueReader
from refluid.feed.statistics import Snapshot, measured

__all__ = [
    "BlockingQueue",
    "NotStarted",
    "QueueReader",
    "ReaderFailed",
    "Snapshot",
    "WorkerDied",
    "measured",
]
