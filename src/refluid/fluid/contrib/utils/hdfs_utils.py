"""`HDFSClient`: files of HDFS, or of another system that `configs` name.

client = HDFSClient("/opt/hadoop", {"fs.default.name": "hdfs://host:54310",
                                    "hadoop.job.ugi": "user,password"})
client.upload("/models/day", "saved")
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from refluid.core.errors import EnforceNotMet
from refluid.core.whole_threads import all_done
from refluid.fluid.saving.remote_files import (
    cleared,
    remote_files,
    repeated,
    shared_out,
)

__all__ = ["HDFSClient", "multi_download", "multi_upload"]


class HDFSClient:
    """By the command `hadoop_home/bin/hadoop`; by fsspec where there is none.

    configs: `fs.default.name` is the file system, others are given to the command. Whatever fails
    is answered by False, or raises EnforceNotMet where there is something else to answer.
    """

    def __init__(self, hadoop_home: str | None, configs: Mapping[str, str]) -> None:
        self._files = remote_files(hadoop_home, dict(configs or {}))

    def upload(
        self, hdfs_path: str, local_path: str, overwrite: bool = False, retry_times: int = 5
    ) -> bool:
        """Copies a file or folder there. An existing one is replaced with `overwrite`."""
        if not Path(local_path).exists():
            raise EnforceNotMet(f"{local_path}: there is no such file")
        if self.is_exist(hdfs_path):
            if not overwrite:
                return False
            self.delete(hdfs_path)
        return repeated(retry_times, self._files.put, local_path, hdfs_path)

    def download(
        self, hdfs_path: str, local_path: str, overwrite: bool = False, unzip: bool = False
    ) -> bool:
        """Copies a file or folder to this machine. unzip: an archive, whose files come beside."""
        target = Path(local_path)
        if target.is_dir() and not overwrite:
            target /= PurePosixPath(hdfs_path).name
        if target.exists():
            if not overwrite:
                return False
            cleared(target)
        self.make_local_dirs(str(target.parent))
        if not repeated(1, self._files.get, hdfs_path, str(target)):
            return False
        if unzip and zipfile.is_zipfile(target):
            with zipfile.ZipFile(target) as archive:
                archive.extractall(target.parent)
        return True

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """Whether there is something of that name."""
        return self._files.exists(str(hdfs_path))

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """Whether it is a folder."""
        return self._files.exists(str(hdfs_path), "d")

    def delete(self, hdfs_path: str) -> bool:
        """Removes a file or folder; True where there is none."""
        return not self.is_exist(hdfs_path) or repeated(1, self._files.remove, hdfs_path)

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Gives it another name. An existing one is replaced with `overwrite`."""
        if self.is_exist(hdfs_dst_path):
            if not overwrite:
                return False
            self.delete(hdfs_dst_path)
        return repeated(1, self._files.rename, hdfs_src_path, hdfs_dst_path)

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Makes a folder of this machine, and those around it."""
        os.makedirs(local_path, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool:
        """Makes a folder, and those around it; True where it is there."""
        return self.is_exist(hdfs_path) or repeated(1, self._files.make_folder, hdfs_path)

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths of what is in a folder; none where it isn't there."""
        if not self.is_exist(hdfs_path):
            return []
        return sorted(one.path for one in self._files.entries(hdfs_path, False))

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True) -> list[str]:
        """The paths of all that is below a folder. sort: by the time of their last change."""
        if not self.is_exist(hdfs_path):
            return []
        found = self._files.entries(hdfs_path, True)
        if sort:
            found.sort(key=lambda one: (one.changed, one.path))
        return [one.path for one in found if not (only_file and one.is_dir)]


def multi_download(
    client: HDFSClient,
    hdfs_path: str,
    local_path: str,
    trainer_id: int,
    trainers: int,
    multi_processes: int = 5,
) -> list[str]:
    """Downloads this trainer's share of a folder's files, several at a time; their paths here."""
    _require_client(client)
    client.make_local_dirs(local_path)
    files = shared_out(sorted(client.lsr(hdfs_path)), trainer_id, trainers)
    targets = [_beside(one, hdfs_path, local_path) for one in files]

    def fetch(pair: tuple[str, str]) -> bool:
        return client.download(pair[0], pair[1])

    all_done(fetch, list(zip(files, targets, strict=True)), multi_processes)
    return targets


def multi_upload(
    client: HDFSClient,
    hdfs_path: str,
    local_path: str,
    multi_processes: int = 5,
    overwrite: bool = False,
    sync: bool = True,
) -> None:
    """Uploads all files below a folder of this machine, several at a time.

    sync: which are there is looked up anew; False is the same here.
    """
    _require_client(client)
    pairs = [
        (f"{hdfs_path}/{Path(one).relative_to(local_path)}", one) for one in getfilelist(local_path)
    ]
    for folder in sorted({str(PurePosixPath(path).parent) for path, _ in pairs}):
        client.makedirs(folder)
    all_done(lambda pair: client.upload(pair[0], pair[1], overwrite), pairs, multi_processes)


def getfilelist(path: str) -> list[str]:
    """The paths of all files below a folder of this machine."""
    return sorted(str(one) for one in _below(Path(path)))


def _below(folder: Path) -> Iterable[Path]:
    return (one for one in folder.rglob("*") if one.is_file())


def _beside(path: str, folder: str, local: str) -> str:
    """Where a file of a folder comes to here."""
    plain, below = (PurePosixPath(one.split("://", 1)[-1]) for one in (path, folder))
    name = plain.relative_to(below) if plain.is_relative_to(below) else PurePosixPath(plain.name)
    return str(Path(local) / name)


def _require_client(client: HDFSClient) -> None:
    if not isinstance(client, HDFSClient):
        raise TypeError(f"client must be an HDFSClient, not {type(client).__name__}")
