"""File systems that checkpoints are kept in: this machine's."""

from __future__ import annotations

import abc
import shutil
from pathlib import Path

__all__ = ["FS", "LocalFS"]


class FS(abc.ABC):
    """What a checkpoint needs of a file system."""

    @abc.abstractmethod
    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of the folders in a folder."""

    @abc.abstractmethod
    def ls_dir(self, fs_path: str) -> list[str]:
        """The names of all that is in a folder."""

    @abc.abstractmethod
    def stat(self, fs_path: str) -> bool:
        """Whether there is something of that name."""

    @abc.abstractmethod
    def mkdir(self, fs_path: str) -> None:
        """Makes a folder, and those around it."""

    @abc.abstractmethod
    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        """Gives a file or folder another name."""

    @abc.abstractmethod
    def rmr(self, fs_path: str) -> None:
        """Removes a folder with all that is in it."""

    @abc.abstractmethod
    def rm(self, fs_path: str) -> None:
        """Removes a file."""

    @abc.abstractmethod
    def delete(self, fs_path: str) -> None:
        """Removes what is there, if anything."""

    @abc.abstractmethod
    def need_upload_download(self) -> bool:
        """Whether files are first written on this machine and then uploaded."""

    def upload(self, local_path: str, fs_path: str) -> None:
        """Copies a folder of this machine there."""
        raise NotImplementedError(f"{type(self).__name__} needs no upload")

    def download(self, fs_path: str, local_path: str) -> None:
        """Copies a folder to this machine."""
        raise NotImplementedError(f"{type(self).__name__} needs no download")


class LocalFS(FS):
    """The files of this machine, and whatever is mounted there."""

    def list_dirs(self, fs_path: str) -> list[str]:
        if not self.stat(fs_path):
            return []
        return sorted(one.name for one in Path(fs_path).iterdir() if one.is_dir())

    def ls_dir(self, fs_path: str) -> list[str]:
        return sorted(one.name for one in Path(fs_path).iterdir())

    def stat(self, fs_path: str) -> bool:
        return Path(fs_path).exists()

    def mkdir(self, fs_path: str) -> None:
        Path(fs_path).mkdir(parents=True, exist_ok=True)

    def mv(self, fs_src_path: str, fs_dst_path: str) -> None:
        Path(fs_src_path).rename(fs_dst_path)

    def rmr(self, fs_path: str) -> None:
        shutil.rmtree(fs_path)

    def rm(self, fs_path: str) -> None:
        Path(fs_path).unlink()

    def delete(self, fs_path: str) -> None:
        if Path(fs_path).is_dir():
            self.rmr(fs_path)
        elif self.stat(fs_path):
            self.rm(fs_path)

    def need_upload_download(self) -> bool:
        return False
