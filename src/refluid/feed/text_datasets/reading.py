"""From a file of a dataset to columns: opened, piped, cut at line ends, parsed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from refluid.feed.multislot.columns import Columns
from refluid.feed.multislot.parsing import LineSlot, MultiSlotParser
from refluid.feed.text_datasets.batches import Piece
from refluid.feed.text_datasets.done import Done
from refluid.feed.text_datasets.files import (
    BytesRead,
    UnreadableFile,
    hadoop_command,
    open_file,
    total_size,
    unreadable,
)
from refluid.feed.text_datasets.pipe import Pipe, does_nothing, download_pipe

_BLOCK = 1 << 20
_LONGEST = 1 << 28


@dataclass(frozen=True)
class RowSource:
    """Where rows come from and how their text is made and read.

    options: for fsspec. hadoop: name and ugi of a file system, for the command. environment:
    variables for the commands. skip_bad_lines: as of `MultiSlotParser`; note_skipped is told how
    many there were.
    """

    paths: tuple[str, ...]
    slots: tuple[LineSlot, ...]
    pipe_command: str = "cat"
    download_command: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    skip_bad_lines: bool = False
    note_skipped: Callable[[int], None] = lambda _count: None
    hadoop: Mapping[str, str] = field(default_factory=dict)


class Reading:
    """One pass over the files of a source by any number of threads, which share them out.

    Each thread iterates `pieces()`. `cancel` ends all of them at once. done: rows that are left
    out, as they were trained earlier.
    """

    def __init__(self, source: RowSource, bytes_read: BytesRead, done: Done) -> None:
        self.source, self.bytes_read = source, bytes_read
        self._done = done
        self._lock = threading.Lock()
        self._left: Iterator[tuple[int, str]] = enumerate(source.paths)
        self._pipes: set[Pipe] = set()
        self._cancelled = False

    def pieces(self) -> Generator[Piece, None, None]:
        """The rows of one file after the other, as long as there are any that nobody has taken.

        Raises BadLine, UnreadableFile or PipeFailed after the rows before the fault.
        """
        parser = MultiSlotParser(self.source.slots, self.source.skip_bad_lines)
        try:
            while (taken := self._take()) is not None:
                yield from self._file(*taken, parser)
        finally:
            if parser.skipped:
                self.source.note_skipped(parser.skipped)

    def cancel(self) -> None:
        """No more rows: files are left where they are, commands are ended."""
        with self._lock:
            self._cancelled = True
            pipes = list(self._pipes)
        for pipe in pipes:
            pipe.kill()

    def _take(self) -> tuple[int, str] | None:
        with self._lock:
            while not self._cancelled and (taken := next(self._left, None)) is not None:
                if not self._done.complete(taken[0]):
                    return taken
            return None

    def _file(self, number: int, path: str, parser: MultiSlotParser) -> Iterator[Piece]:
        source = self.source
        with ExitStack() as held:
            pipe: Pipe | None = None
            command = source.download_command
            if does_nothing(command):
                command = hadoop_command(path, source.hadoop)
            if command:
                pipe = download_pipe(command, path, source.environment)
                self._hold(held, pipe)
                stream = pipe.stream
            else:
                stream = open_file(path, source.options, self.bytes_read, held)
            last = pipe
            if not does_nothing(source.pipe_command):
                last = Pipe(source.pipe_command, path, stream, source.environment)
                self._hold(held, last)
                stream = last.stream
            pipes = [one for one in (pipe, last if last is not pipe else None) if one is not None]
            row = 0
            for columns in self._stream(stream, number, path, parser, pipes):
                stop = row + (columns if isinstance(columns, int) else columns.rows)
                if not isinstance(columns, int):
                    piece = Piece(number, row, columns)
                    for start, end in self._done.left(number, row, stop):
                        yield piece.part(start - row, end - row)
                row = stop
            if not self._cancelled:
                self._done.note_end(number, row)

    def _hold(self, held: ExitStack, pipe: Pipe) -> None:
        held.callback(pipe.close)
        held.callback(self._pipes.discard, pipe)
        with self._lock:
            self._pipes.add(pipe)
            cancelled = self._cancelled
        if cancelled:
            pipe.kill()

    def _stream(
        self,
        stream: IO[bytes],
        number: int,
        path: str,
        parser: MultiSlotParser,
        pipes: Sequence[Pipe],
    ) -> Iterator[Columns | int]:
        """The rows of a stream that `pipes` make: their faults come before the line they cut.

        Of rows at the begin that are done only how many they are.
        """
        buffer = bytearray(_BLOCK + 1)
        filled, line = 0, 1
        done = 0 if self.source.skip_bad_lines else self._done.first_open(number)
        while not self._cancelled:
            count = _read(stream, path, buffer, filled)
            filled += count
            if count == 0 and not self._cancelled:
                for pipe in pipes:
                    pipe.finish()
            end = filled if count == 0 else buffer.rfind(b"\n", 0, filled) + 1
            if end == 0 and count == 0:
                return
            if end:
                lines = buffer.count(b"\n", 0, end)
                if count and line + lines - 1 <= done:
                    yield lines
                else:
                    yield from _parsed(parser, buffer, end, path, line)
                line += lines
                buffer[: filled - end] = buffer[end:filled]
                filled -= end
            if count == 0:
                return
            if filled >= len(buffer) - 1:
                if len(buffer) > _LONGEST:
                    raise UnreadableFile(
                        f"{path}, line {line}: longer than {_LONGEST >> 20} MiB; is it text?"
                    )
                buffer += bytes(len(buffer))


def _parsed(
    parser: MultiSlotParser, buffer: bytearray, end: int, path: str, line: int
) -> Iterator[Columns]:
    """The rows of the lines `buffer[:end]`, then what is wrong with the first bad one."""
    parsed = parser.parse(buffer, end, path, line)
    if parsed.columns.rows:
        yield parsed.columns
    if parsed.error is not None:
        raise parsed.error


def _read(stream: IO[bytes], path: str, buffer: bytearray, filled: int) -> int:
    """Reads into the buffer from `filled` on, all but its last byte; 0 at the end."""
    try:
        with memoryview(buffer) as view:
            count: int = stream.readinto1(view[filled:-1])  # type: ignore[attr-defined]
            return count
    except Exception as error:
        clear = unreadable(path, error)
        if clear is None:
            raise
        raise clear from error


def start_reading(source: RowSource, done: Done | None = None) -> Reading:
    """A pass over all files, each of which is looked for first. Raises UnreadableFile.

    done: rows that are left out; the numbers of rows of files are noted in it.
    """
    done = Done() if done is None else done
    paths = [path for number, path in enumerate(source.paths) if not done.complete(number)]
    known = does_nothing(source.download_command)
    return Reading(source, BytesRead(total_size(paths) if known else None), done)
