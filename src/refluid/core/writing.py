"""Files written so that no reader sees a part, and those that belong together all or none.

Each is written beside its place under a name of its own; only when all are complete they are
renamed, one after the other. Whatever fails, on a full disk for example, the old files stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from refluid.core.errors import EnforceNotMet

Write = Callable[[BinaryIO], object]


def write_file(path: str | os.PathLike[str], write: Write, durable: bool = True) -> None:
    """Calls `write` with a file that takes the place of `path`; see `write_files`."""
    write_files([(Path(path), write)], durable)


def write_files(files: Iterable[tuple[Path, Write]], durable: bool = True) -> None:
    """Calls each function with a file; all take their places once all are complete.

    Folders are made as needed. If anything fails, all paths are as before, and no part is left;
    so it is where Ctrl-C comes. Unless `durable` is False the data is on disk when this returns.
    Raises EnforceNotMet where a file can't be written (no room, no permission, a folder in its
    place) or two paths are the same file.
    """
    from refluid.core.whole_threads import interrupts_later  # not every program writes

    parts: dict[Path, Path] = {}
    try:
        for path, write in files:
            target = _target(path)
            if target in parts:
                raise EnforceNotMet(f"{path} would be written twice: two things have its name")
            with _explained(target):
                parts[target] = _beside(target)
                _fill(parts[target], write, durable)
        with interrupts_later():  # halfway some files would be old, and second names would stay
            _put_in_place(parts)
    finally:
        with interrupts_later():
            _remove(parts.values())
    if durable:
        for folder in {target.parent for target in parts}:
            _sync(folder)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a page, a trace or a graph, all of it or nothing; see `write_files`.

    What is no file, such as /dev/stdout, is written to as it is.
    """
    where, data = Path(path), content.encode() if isinstance(content, str) else content
    if where.exists() and not (where.is_file() or where.is_dir()):
        with _explained(where):
            where.write_bytes(data)
    else:
        write_file(where, lambda file: file.write(data), durable=False)


def _target(path: Path) -> Path:
    """The file itself, where `path` is a link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise EnforceNotMet(f"{str(path)!r} can't be the name of a file: {error}") from error


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EnforceNotMet(
            f"{target}: cannot be written: {reason}. What was there before is unchanged"
        ) from error


def _beside(target: Path) -> Path:
    """A new name in the folder of `target`, which is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise IsADirectoryError(None, "a folder has this name")
    return _new_name(target, "part")


def _new_name(target: Path, kind: str) -> Path:
    return target.with_name(f".{uuid.uuid4().hex}.{kind}")


def _fill(part: Path, write: Write, durable: bool) -> None:
    with part.open("xb") as file:
        write(file)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _put_in_place(parts: Mapping[Path, Path]) -> None:
    """Renames all parts; where one can't be, the old files come back."""
    former: dict[Path, Path | None] = {}
    try:
        for target in parts if len(parts) > 1 else ():
            with _explained(target):
                _keep(target, former)
        for target, part in parts.items():
            with _explained(target):
                part.replace(target)
    except BaseException:
        for target, old in former.items():
            with contextlib.suppress(OSError):
                if old is not None:
                    old.replace(target)
                elif not parts[target].exists():
                    target.unlink(missing_ok=True)
        raise
    finally:
        _remove(old for old in former.values() if old is not None)


def _keep(target: Path, former: dict[Path, Path | None]) -> None:
    """Notes a second name for the file that is at `target` now, None where there is none.

    A file system without second names can't bring old files back; nothing is noted then.
    """
    if not target.exists():
        former[target] = None
        return
    old = _new_name(target, "old")
    try:
        os.link(target, old)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        return
    former[target] = old


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Waits until the names in a folder are on disk, where the file system can tell."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
