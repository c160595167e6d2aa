"""Objects as bytes: a pickle beside the arrays, which are not part of it.

Layout: length of the pickle, number of arrays, length of each array, the pickle, the arrays.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import Any

_HEAD = struct.Struct("<QQ")
_ALIGN = 64


@dataclass(frozen=True)
class Packed:
    """An object taken apart, to be written somewhere."""

    pickled: bytes
    arrays: list[memoryview]
    size: int

    def write(self, target: memoryview) -> None:
        """Writes all of it to the start of `target`."""
        head = [len(self.pickled), len(self.arrays), *(len(array) for array in self.arrays)]
        struct.pack_into(f"<{len(head)}Q", target, 0, *head)
        position = 8 * len(head)
        target[position : position + len(self.pickled)] = self.pickled
        position += len(self.pickled)
        for array in self.arrays:
            position = _aligned(position)
            target[position : position + len(array)] = array
            position += len(array)


def pack(value: Any) -> Packed:
    """Takes an object apart; its contiguous arrays are not copied."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    size = _HEAD.size + 8 * len(views) + len(pickled)
    for view in views:
        size = _aligned(size) + len(view)
    return Packed(pickled, views, size)


def unpack(data: Any) -> Any:
    """The object again; its arrays share the memory of `data`."""
    view = memoryview(data)
    length, count = _HEAD.unpack_from(view, 0)
    lengths = struct.unpack_from(f"<{count}Q", view, _HEAD.size)
    position = _HEAD.size + 8 * count
    pickled = view[position : position + length]
    position += length
    arrays = []
    for size in lengths:
        position = _aligned(position)
        arrays.append(view[position : position + size])
        position += size
    return pickle.loads(pickled, buffers=arrays)


def _aligned(position: int) -> int:
    return -(-position // _ALIGN) * _ALIGN
