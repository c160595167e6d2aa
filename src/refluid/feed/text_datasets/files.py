"""Files of a dataset: local ones and URLs, gzip and zstd unpacked, bytes counted."""

from __future__ import annotations

import gzip
import io
import os
import shlex
import shutil
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any, cast

from refluid.core.errors import EnforceNotMet

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BUFFER = 1 << 20


class UnreadableFile(EnforceNotMet):
    """A file of a dataset is missing, truncated or damaged; names it."""


class BytesRead:
    """How much of the files of one pass was read, in bytes as they lie on disk."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._done = 0

    def add(self, count: int) -> None:
        """Notes that `count` more bytes were read."""
        with self._lock:
            self._done += count

    @property
    def done(self) -> int:
        """The bytes read so far."""
        return self._done

    @property
    def share(self) -> float | None:
        """The part read, 0 to 1; None where the sizes of the files aren't known."""
        return None if not self.total else min(1.0, self._done / self.total)


def is_url(path: str) -> bool:
    """Whether fsspec has to open this, or a command."""
    return "://" in path or _is_short(path)


def _is_short(path: str) -> bool:
    """Whether it is `hdfs:/folder/file` or `afs:/folder/file`: Fluid asks `hadoop` for these."""
    return path.startswith(("hdfs:", "afs:")) and "://" not in path


def hadoop_command(path: str, options: Mapping[str, Any]) -> str:
    """The command that writes what such a path has; empty for others, and without `hadoop`.

    options: name and ugi, as `set_hdfs_config` was given them.
    """
    if not _is_short(path) or shutil.which("hadoop") is None:
        return ""
    settings = []
    if "name" in options:
        settings = ["-D", f"fs.default.name={options['name']}"]
        settings += ["-D", f"hadoop.job.ugi={options['ugi']}"]
    return shlex.join(["hadoop", "fs", *settings, "-text" if path.endswith(".gz") else "-cat"])


def total_size(paths: Sequence[str]) -> int | None:
    """The bytes of all files, None where some are not local.

    Raises UnreadableFile for a local file that can't be opened.
    """
    sizes: list[int | None] = []
    for path in paths:
        if is_url(path):
            sizes.append(None)
            continue
        try:
            with open(path, "rb") as file:
                sizes.append(os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from error
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


class _Counted(io.RawIOBase):
    """A raw file that notes what is read of it."""

    def __init__(self, raw: Any, read: BytesRead) -> None:
        self._raw, self._read = raw, read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._raw.readinto(buffer) or 0
        self._read.add(count)
        return int(count)

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def close(self) -> None:
        self._raw.close()
        super().close()


def open_file(path: str, options: Mapping[str, Any], read: BytesRead, held: ExitStack) -> IO[bytes]:
    """The unpacked bytes of a file or URL; `held` closes it.

    options: for fsspec, such as host and user of an HDFS. Packed files are recognised by their
    first bytes. Raises UnreadableFile.
    """
    try:
        raw: Any = _open_url(path, options) if is_url(path) else io.FileIO(path)
        held.callback(raw.close)
        file = io.BufferedReader(_Counted(raw, read), _BUFFER)
        held.callback(file.close)
        start = file.peek(4)[:4]
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror or error}") from error
    if start.startswith(_GZIP):
        return cast(IO[bytes], held.enter_context(gzip.GzipFile(fileobj=file)))
    if start == _ZSTD:
        return cast(IO[bytes], held.enter_context(io.BufferedReader(_unzstd(path, file), _BUFFER)))
    return cast(IO[bytes], file)


def _open_url(path: str, options: Mapping[str, Any]) -> Any:
    if path.startswith("afs:"):
        raise UnreadableFile(
            f"{path}: reading it needs the command hadoop on PATH, or set_download_cmd"
        )
    if _is_short(path):
        path = path.replace(":", "://", 1)
    try:
        import fsspec
    except ImportError as error:
        raise UnreadableFile(
            f"{path}: reading URLs needs the package fsspec: pip install fsspec"
        ) from error
    try:
        return fsspec.open(path, "rb", **options).open()
    except (ImportError, ValueError) as error:
        raise UnreadableFile(f"{path}: cannot be opened: {error}") from error


def _unzstd(path: str, file: Any) -> io.RawIOBase:
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableFile(
            f"{path}: is packed with zstd; reading it needs: pip install zstandard"
        ) from error
    return _Unzstd(file, zstandard.ZstdDecompressor().decompressobj)


class _Unzstd(io.RawIOBase):
    """The unpacked bytes of one zstd frame after the other; EOFError where the last is cut off.

    (zstandard's own stream takes the end of the file for the end of the frame.)
    """

    def __init__(self, file: Any, frame: Callable[[], Any]) -> None:
        self._file, self._frame = file, frame
        self._open: Any = None
        self._packed = self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._packed = self._packed or self._file.read1(_BUFFER)
            if not self._packed:
                if self._open is not None:
                    raise EOFError
                return 0
            self._open = self._open or self._frame()
            self._ready = self._open.decompress(self._packed)
            self._packed = self._open.unused_data if self._open.eof else b""
            self._open = None if self._open.eof else self._open
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def unreadable(path: str, error: BaseException) -> UnreadableFile | None:
    """The clear error for what unpacking or reading a file raised; None for anything else."""
    if isinstance(error, EOFError):
        return UnreadableFile(f"{path}: is truncated: its packed data end too early")
    if isinstance(error, OSError | zlib.error) or type(error).__name__ == "ZstdError":
        return UnreadableFile(f"{path}: cannot be read or is damaged: {error}")
    return None
