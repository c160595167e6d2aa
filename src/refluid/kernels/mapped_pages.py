"""What is mapped into this process; pages of files that a library mapped, given back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_DONTNEED = 4


def regions() -> Iterator[tuple[int, int, str, str]]:
    """Where each mapping begins and ends, its rights and its name: a file's, or what Linux says.

    There are none where the system doesn't tell, as Linux does.
    """
    if not _MAPS.exists():
        return
    for line in _MAPS.read_text().splitlines():
        place, rights, _offset, _device, _file, *name = line.split(maxsplit=5)
        begin, _, end = place.partition("-")
        yield int(begin, 16), int(end, 16), rights, "".join(name)


def mapped_ranges(path: Path) -> list[tuple[int, int]]:
    """Where a file is mapped that nobody writes to by memory: address and bytes of each range."""
    own = str(path.resolve())
    return [
        (begin, end - begin)
        for begin, end, rights, name in regions()
        if name == own and rights == "r--s"
    ]


def give_back(ranges: list[tuple[int, int]]) -> None:
    """Takes the pages of these ranges out of the process, where they come back when they are read.

    They stay in the system's cache of files as long as there is room.
    """
    if ranges:
        libc = ctypes.CDLL(None)
        for start, size in ranges:
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)
