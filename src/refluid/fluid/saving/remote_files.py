"""Files of HDFS and its like, by the `hadoop` command where there is one, else by fsspec."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from refluid.core.errors import EnforceNotMet

# What configs call the file system.
_SYSTEM = ("fs.default.name", "fs.defaultFS")
_PAUSE = 0.2


class RemoteEntry:
    """One file or folder: its path, whether it is a folder, when it was changed."""

    def __init__(self, path: str, is_dir: bool, changed: str = "") -> None:
        self.path, self.is_dir, self.changed = path, is_dir, changed


@runtime_checkable
class RemoteFiles(Protocol):
    """A file system. Each raises EnforceNotMet where it fails."""

    def exists(self, path: str, kind: str = "e") -> bool:
        """Whether there is something (`e`), a folder (`d`) or a file (`f`) of that name."""

    def entries(self, path: str, recursive: bool) -> list[RemoteEntry]:
        """What is in a folder, or the file itself."""

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all that is in it."""

    def rename(self, path: str, new: str) -> None:
        """Gives a file or folder another name."""

    def make_folder(self, path: str) -> None:
        """Makes a folder, and those around it."""

    def put(self, local: str, path: str) -> None:
        """Copies a file or folder of this machine there."""

    def get(self, path: str, local: str) -> None:
        """Copies a file or folder to this machine."""

    def read(self, path: str) -> str:
        """A file as text."""


def remote_files(hadoop_home: str | None, configs: Mapping[str, str]) -> RemoteFiles:
    """The file system that `configs` name (`fs.default.name`), by `HADOOP_HOME/bin/hadoop`.

    Without that command by fsspec. EnforceNotMet where that can't reach it either.
    """
    command = Path(hadoop_home) / "bin" / "hadoop" if hadoop_home else None
    if command is not None and command.is_file():
        return HadoopFiles(command, configs)
    return FsspecFiles(next((configs[one] for one in _SYSTEM if one in configs), "file:///"))


class HadoopFiles:
    """By `hadoop fs`."""

    def __init__(self, command: Path, configs: Mapping[str, str]) -> None:
        settings = [f"-D{name}={value}" for name, value in configs.items()]
        self._command = [str(command), "fs", *settings]

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._command, *arguments], capture_output=True, text=True)

    def _done(self, *arguments: str) -> str:
        found = self._run(*arguments)
        if found.returncode:
            what = " ".join(arguments)
            raise EnforceNotMet(f"hadoop fs {what} failed: {found.stderr.strip()[-500:]}")
        return found.stdout

    def exists(self, path: str, kind: str = "e") -> bool:
        return self._run("-test", f"-{kind}", path).returncode == 0

    def entries(self, path: str, recursive: bool) -> list[RemoteEntry]:
        lines = self._done("-ls", *(["-R"] if recursive else []), path).splitlines()
        fields = [line.split(maxsplit=7) for line in lines]
        return [
            RemoteEntry(one[7], one[0].startswith("d"), f"{one[5]} {one[6]}")
            for one in fields
            if len(one) == 8
        ]

    def remove(self, path: str) -> None:
        self._done("-rm", "-r", path)

    def rename(self, path: str, new: str) -> None:
        self._done("-mv", path, new)

    def make_folder(self, path: str) -> None:
        self._done("-mkdir", "-p", path)

    def put(self, local: str, path: str) -> None:
        self._done("-put", local, path)

    def get(self, path: str, local: str) -> None:
        self._done("-get", path, local)

    def read(self, path: str) -> str:
        return self._done("-cat", path)


class FsspecFiles:
    """By fsspec: `file:///` is this machine, `hdfs://` needs pyarrow, others their own packages."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._files: Any = fsspec.url_to_fs(url)[0]
        except (ImportError, OSError, ValueError) as error:
            raise EnforceNotMet(
                f"{url} can't be reached: {error}. Give HDFSClient a hadoop_home with bin/hadoop, "
                "or install what fsspec needs for it (pyarrow for hdfs)"
            ) from error

    def exists(self, path: str, kind: str = "e") -> bool:
        test = {"e": self._files.exists, "d": self._files.isdir, "f": self._files.isfile}[kind]
        return bool(test(path))

    def entries(self, path: str, recursive: bool) -> list[RemoteEntry]:
        if not recursive:
            return [_entry(one) for one in self._files.ls(path, detail=True)]
        found = self._files.find(path, withdirs=True, detail=True).values()
        return [_entry(one) for one in found if one["name"].rstrip("/") != path.rstrip("/")]

    def remove(self, path: str) -> None:
        self._files.rm(path, recursive=True)

    def rename(self, path: str, new: str) -> None:
        self._files.mv(path, new, recursive=True)

    def make_folder(self, path: str) -> None:
        self._files.makedirs(path, exist_ok=True)

    def put(self, local: str, path: str) -> None:
        self._files.put(local, path, recursive=Path(local).is_dir())

    def get(self, path: str, local: str) -> None:
        self._files.get(path, local, recursive=self._files.isdir(path))

    def read(self, path: str) -> str:
        return str(self._files.cat_file(path).decode())


def _entry(found: Mapping[str, Any]) -> RemoteEntry:
    changed = str(found.get("mtime") or found.get("last_modified") or "")
    return RemoteEntry(found["name"], found["type"] == "directory", changed)


def repeated(times: int, what: Any, *arguments: Any) -> bool:
    """Calls a function until it succeeds, so often at most; whether it did."""
    for number in range(max(1, times)):
        try:
            what(*arguments)
            return True
        except (EnforceNotMet, OSError):
            if number + 1 < times:
                time.sleep(_PAUSE)
    return False


def cleared(path: Path) -> None:
    """Removes a file or folder of this machine."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def shared_out(files: Sequence[str], number: int, count: int) -> list[str]:
    """Every `count`-th file, from the `number`-th on."""
    return list(files)[number::count]
