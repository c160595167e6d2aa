"""Files as Python 2 opened them: what is read is text where it can be, and else bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any


class Python2File:
    """An open file whose lines are text, and whose bytes are bytes where they are no text.

    In Python 2 both were `str`. Bytes are text here where they are UTF-8 without a zero byte.
    Text and bytes can be written.
    """

    def __init__(self, binary: Any) -> None:
        self.binary = binary

    def read(self, size: int = -1) -> str | bytes:
        """The next `size` bytes, or all."""
        return _text(self.binary.read(size))

    def readline(self, size: int = -1) -> str | bytes:
        """The next line."""
        return _text(self.binary.readline(size))

    def readlines(self, hint: int = -1) -> list[str | bytes]:
        """All lines that are left."""
        return [_text(line) for line in self.binary.readlines(hint)]

    xreadlines = readlines

    def write(self, text: str | bytes) -> None:
        """Text as UTF-8, bytes as they are."""
        self.binary.write(text.encode() if isinstance(text, str) else text)

    def writelines(self, lines: Iterable[str | bytes]) -> None:
        """Writes one after the other."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str | bytes]:
        return (_text(line) for line in self.binary)

    def __next__(self) -> str | bytes:
        return _text(next(self.binary))

    next = __next__

    def __enter__(self) -> Python2File:
        return self

    def __exit__(self, *_error: object) -> None:
        self.binary.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binary, name)


def _text(data: bytes) -> str | bytes:
    if b"\0" in data:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def opened(
    name: str | os.PathLike[str], mode: str = "r", buffering: int = -1, **options: Any
) -> Any:
    """Python 2's `open`; with options that it did not know, that of Python 3."""
    if options or "b" in mode:
        return open(name, mode, buffering, **options)
    kept = mode.replace("U", "").replace("t", "") or "r"
    return Python2File(open(name, f"{kept}b", -1 if buffering == 1 else buffering))


def printed(*values: Any, **options: Any) -> None:
    """Python 3's `print`, of bytes as the text that they are."""
    print(*(_text(one) if isinstance(one, bytes) else one for one in values), **options)


def binary_of(file: Any) -> Any:
    """The bytes under a file of text, for what reads and writes bytes."""
    return file.binary if isinstance(file, Python2File) else getattr(file, "buffer", file)
