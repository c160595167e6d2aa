"""Text and bytes as in Python 2, where both were `str`: of files, of `encode`, and printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from io import TextIOBase
from typing import Any


class Python2File:
    """An open file whose lines are text, and whose bytes are bytes where they are no text.

    In Python 2 both were `str`. Bytes are text here where they are UTF-8 without a zero byte; of
    other lines they are bytes beside which text is bytes. Text and bytes can be written.
    """

    def __init__(self, binary: Any) -> None:
        self.binary = binary

    @staticmethod
    def _line(data: bytes) -> str | bytes:
        found = _text(data)
        return found if isinstance(found, str) else Encoded(found)

    def read(self, size: int = -1) -> str | bytes:
        """The next `size` bytes, or all."""
        return _text(self.binary.read(size))

    def readline(self, size: int = -1) -> str | bytes:
        """The next line."""
        return self._line(self.binary.readline(size))

    def readlines(self, hint: int = -1) -> list[str | bytes]:
        """All lines that are left."""
        return [self._line(line) for line in self.binary.readlines(hint)]

    xreadlines = readlines

    def write(self, text: str | bytes) -> None:
        """Text as UTF-8, bytes as they are."""
        self.binary.write(text.encode() if isinstance(text, str) else text)

    def writelines(self, lines: Iterable[str | bytes]) -> None:
        """Writes one after the other."""
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str | bytes]:
        return (self._line(line) for line in self.binary)

    def __next__(self) -> str | bytes:
        return self._line(next(self.binary))

    next = __next__

    def __enter__(self) -> Python2File:
        return self

    def __exit__(self, *_error: object) -> None:
        self.binary.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.binary, name)


class Python2Binary(Python2File):
    """A file open for bytes: its lines are bytes beside which text is bytes, all else stays."""

    @staticmethod
    def _line(data: bytes) -> bytes:
        return Encoded(data)

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, or all."""
        found: bytes = self.binary.read(size)
        return found


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
    if options:
        return open(name, mode, buffering, **options)
    if "b" in mode:
        return Python2Binary(open(name, mode, buffering))
    kept = mode.replace("U", "").replace("t", "") or "r"
    return Python2File(open(name, f"{kept}b", -1 if buffering == 1 else buffering))


def opening(function: Callable[..., Any]) -> Callable[..., Any]:
    """Python 2's `gzip.open` and the like, of the present one."""

    def opened(*given: Any, **options: Any) -> Any:
        found = function(*given, **options)
        return found if isinstance(found, TextIOBase) else Python2Binary(found)

    return opened


def printed(*values: Any, **options: Any) -> None:
    """Python 3's `print`, of bytes as the text that they are."""
    print(*map(_as_text, values), **options)


def _as_text(value: Any) -> Any:
    if isinstance(value, Encoded):
        return value.text
    return _text(value) if isinstance(value, bytes) else value


class Encoded(bytes):
    """Bytes that `encode` gave, which are text beside text, as a `str` of Python 2 was."""

    encoding: str

    def __new__(cls, data: bytes, encoding: str = "utf-8") -> Encoded:
        made = super().__new__(cls, data)
        made.encoding = encoding
        return made

    @property
    def text(self) -> str:
        """What was encoded; with signs in place of parts that are no text."""
        return self.decode(self.encoding, "replace")

    def given(self, value: Any) -> Any:
        """An argument, text of which is encoded."""
        if isinstance(value, str):
            return value.encode(self.encoding)
        return type(value)(map(self.given, value)) if isinstance(value, list | tuple) else value

    def made(self, value: Any) -> Any:
        """A result, whose bytes are as these are."""
        if isinstance(value, bytes):
            return Encoded(value, self.encoding)
        return type(value)(map(self.made, value)) if isinstance(value, list | tuple) else value

    def format(self, *values: Any, **named: Any) -> str:
        """As `str.format`."""
        return self.text.format(*values, **named)

    def join(self, parts: Iterable[Any]) -> Any:
        """As `str.join`, of text and bytes."""
        return self.made(super().join(self.given(list(parts))))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return super().__repr__()[1:]

    def __format__(self, how: str) -> str:
        return format(self.text, how)

    def __mod__(self, values: Any) -> Any:
        return self.text % values

    def __radd__(self, other: Any) -> Any:
        return self.made(self.given(other) + bytes(self))

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return self.made(bytes([found]) if isinstance(found, int) else found)

    def __iter__(self) -> Any:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return self.text == other if isinstance(other, str) else super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self.text)


_BOTH = """
    __add__ __contains__ __ge__ __gt__ __le__ __lt__ __mul__ __rmul__ capitalize center count
    endswith find index ljust lower lstrip partition replace rfind rindex rjust rpartition rsplit
    rstrip split splitlines startswith strip swapcase title upper zfill
"""


def _of_both(name: str) -> Callable[..., Any]:
    method = getattr(bytes, name)
    return lambda self, *given: self.made(method(self, *map(self.given, given)))


for _name in _BOTH.split():
    setattr(Encoded, _name, _of_both(_name))


def taking_bytes(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`encode` of a text, whose bytes are text as well; `join` and `write`, which take these."""

    def encode(encoding: str = "utf-8", errors: str = "strict") -> Encoded:
        return Encoded(method(encoding, errors), encoding)

    if name == "encode":
        return encode
    if name == "join":
        return lambda parts: method(map(_as_text, parts))
    return lambda text: method(_as_text(text))


def binary_of(file: Any) -> Any:
    """The bytes under a file of text, for what reads and writes bytes."""
    return file.binary if isinstance(file, Python2File) else getattr(file, "buffer", file)
