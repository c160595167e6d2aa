"""From a file of a dataset to columns: opened, piped, cut at line ends, parsed."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from refluid.feed.dataset_files import (
    BytesRead,
    UnreadableFile,
    open_file,
    total_size,
    unreadable,
)
from refluid.feed.dataset_pipe import Pipe, does_nothing, download_pipe
from refluid.feed.multislot import MultiSlotParser, Slot
from refluid.feed.multislot_columns import Columns

_BLOCK = 1 << 20
_LONGEST = 1 << 28
Piece = tuple[int, int, Columns]


@dataclass(frozen=True)
class Source:
    """Where rows come from and how their text is made and read.

    options: for fsspec. environment: variables for the commands. skip_bad_lines: as of
    `MultiSlotParser`.
    """

    paths: tuple[str, ...]
    slots: tuple[Slot, ...]
    pipe_command: str = "cat"
    download_command: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    skip_bad_lines: bool = False


class Reading:
    """One pass over the files of a source by any number of threads, which share them out.

    Each thread iterates `columns()`. `cancel` ends all of them at once.
    """

    def __init__(self, source: Source, bytes_read: BytesRead) -> None:
        self.source, self.bytes_read = source, bytes_read
        self.skipped = 0
        self._lock = threading.Lock()
        self._left: Iterator[tuple[int, str]] = enumerate(source.paths)
        self._pipes: set[Pipe] = set()
        self._cancelled = False

    def columns(self) -> Generator[Columns, None, None]:
        """The rows of one file after the other, as long as there are any that nobody has taken.

        Raises BadLine, UnreadableFile or PipeFailed after the rows before the fault.
        """
        for _, _, columns in self.pieces():
            yield columns

    def pieces(self) -> Generator[Piece, None, None]:
        """As `columns`, with the number of the file and of the piece in it."""
        parser = MultiSlotParser(self.source.slots, self.source.skip_bad_lines)
        try:
            while (taken := self._take()) is not None:
                number, path = taken
                for place, columns in enumerate(self._file(path, parser)):
                    yield number, place, columns
        finally:
            with self._lock:
                self.skipped += parser.skipped

    def cancel(self) -> None:
        """No more rows: files are left where they are, commands are ended."""
        with self._lock:
            self._cancelled = True
            pipes = list(self._pipes)
        for pipe in pipes:
            pipe.kill()

    def _take(self) -> tuple[int, str] | None:
        with self._lock:
            return None if self._cancelled else next(self._left, None)

    def _file(self, path: str, parser: MultiSlotParser) -> Iterator[Columns]:
        source = self.source
        with ExitStack() as held:
            pipe: Pipe | None = None
            if not does_nothing(source.download_command):
                pipe = download_pipe(source.download_command, path, source.environment)
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
            yield from self._stream(stream, path, parser, pipes)

    def _hold(self, held: ExitStack, pipe: Pipe) -> None:
        held.callback(pipe.close)
        held.callback(self._pipes.discard, pipe)
        with self._lock:
            self._pipes.add(pipe)
            cancelled = self._cancelled
        if cancelled:
            pipe.kill()

    def _stream(
        self, stream: IO[bytes], path: str, parser: MultiSlotParser, pipes: Sequence[Pipe]
    ) -> Iterator[Columns]:
        """The rows of a stream that `pipes` make: their faults come before the line they cut."""
        buffer = bytearray(_BLOCK + 1)
        filled, line = 0, 1
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
                parsed = parser.parse(buffer, end, path, line)
                if parsed.columns.rows:
                    yield parsed.columns
                if parsed.error is not None:
                    raise parsed.error
                line += buffer.count(b"\n", 0, end)
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


def start_reading(source: Source) -> Reading:
    """A pass over all files, each of which is looked for first. Raises UnreadableFile."""
    known = does_nothing(source.download_command)
    return Reading(source, BytesRead(total_size(source.paths) if known else None))
