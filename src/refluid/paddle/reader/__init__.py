"""`paddle.reader`: functions from readers to readers.

A reader creator is a function without arguments that returns an iterator over samples.
"""

from refluid.paddle.reader.decorator import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
)

__all__ = [
    "ComposeNotAligned",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "map_readers",
    "shuffle",
]
