"""Functions from readers to readers, for `paddle.reader` and `fluid.io`.

A reader creator is a function without arguments that returns an iterable of samples.
"""

from refluid.feed.decorators.ahead import buffered, xmap_readers
from refluid.feed.decorators.arranging import (
    ComposeNotAligned,
    batch,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
)
from refluid.feed.decorators.processes import multiprocess_reader

__all__ = [
    "ComposeNotAligned",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "multiprocess_reader",
    "shuffle",
    "xmap_readers",
]
