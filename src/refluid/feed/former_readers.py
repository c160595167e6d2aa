"""Readers of arrays, text files and commands, which Fluid documented until 1.7."""

from __future__ import annotations

import codecs
import shlex
import subprocess
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_GZIP = zlib.MAX_WBITS | 16


def np_array(x: npt.ArrayLike) -> Callable[[], Iterator[Any]]:
    """A reader of the elements of a vector, the rows of a matrix, or what else lies along the
    first dimension."""
    array = np.asarray(x)
    if array.ndim < 1:
        array = array.reshape(1)
    return lambda: iter(array)


def text_file(path: str) -> Callable[[], Iterator[str]]:
    """A reader of the lines of a text, without their ends. OSError where it can't be read."""

    def reader() -> Iterator[str]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    return reader


class Fake:
    """Makes readers that read one sample and give it again and again: for measuring speed.

    `Fake()(reader, 100)` is a reader of the first sample of `reader`, a hundred times. What was
    read once is kept: a second reader of the same Fake gives that.
    """

    def __init__(self) -> None:
        self._first: list[Any] = []

    def __call__(
        self, reader: Callable[[], Iterator[Any]], data_num: int
    ) -> Callable[[], Iterator[Any]]:
        def fake() -> Iterator[Any]:
            if not self._first:
                self._first += [next(iter(reader()))]
            for _ in range(data_num):
                yield self._first[0]

        return fake


class PipeReader:
    """Reads what a command writes, such as `hadoop fs -cat part-0` or `curl http://..`.

    command: the program and its arguments, as a shell spells them (it isn't run by one). bufsize:
    bytes that are read at once. file_type: "plain", or "gzip" for output that is compressed so.
    Raises TypeError for a command that is no text and another file type, OSError where there is
    no such program.
    """

    def __init__(self, command: str, bufsize: int = 8192, file_type: str = "plain") -> None:
        if not isinstance(command, str):
            raise TypeError(f"command must be a string, not {type(command).__name__}")
        if file_type not in ("plain", "gzip"):
            raise TypeError(f"file_type must be 'plain' or 'gzip', not {file_type!r}")
        self.command, self.bufsize, self.file_type = command, bufsize, file_type
        self.process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE)

    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """The lines, without `line_break`; the text as it comes where `cut_lines` is false.

        Raises RuntimeError at the end where the command failed. One that isn't read to its end is
        ended.
        """
        left = ""
        try:
            for text in self._texts():
                if not cut_lines:
                    yield text
                    continue
                *lines, left = (left + text).split(line_break)
                yield from lines
            if left:
                yield left
            self._require_success()
        finally:
            self.process.kill()
            self.process.wait()

    def _texts(self) -> Iterator[str]:
        """What the command writes, piece by piece, as text."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        for piece in self._pieces():
            text = decoder.decode(piece)
            if text:
                yield text
        decoder.decode(b"", final=True)

    def _pieces(self) -> Iterator[bytes]:
        output = self.process.stdout
        assert output is not None
        with output:
            unzip = zlib.decompressobj(_GZIP)
            while piece := output.read(self.bufsize):
                if self.file_type == "plain":
                    yield piece
                    continue
                while piece:
                    yield unzip.decompress(piece)
                    piece = unzip.unused_data
                    if piece:  # files that were joined
                        unzip = zlib.decompressobj(_GZIP)
            if self.file_type == "gzip" and not unzip.eof:
                raise EOFError(f"what {self.command!r} writes ends within compressed data")

    def _require_success(self) -> None:
        status = self.process.wait()
        if status:
            raise RuntimeError(f"{self.command!r} ended with status {status}")
