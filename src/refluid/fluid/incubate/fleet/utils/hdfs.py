"""`HDFSClient` of fleets: as `fluid.contrib.utils.HDFSClient`, for several files at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from refluid.core.errors import EnforceNotMet
from refluid.core.whole_threads import all_done
from refluid.fluid.contrib.utils import hdfs_utils
from refluid.fluid.saving.remote_files import remote_files, repeated, shared_out

__all__ = ["HDFSClient"]


class HDFSClient:
    """By the command `hadoop_home/bin/hadoop`; by fsspec where there is none.

    configs: `fs.default.name` is the file system, others are given to the command. Whatever fails
    is answered by False, or raises EnforceNotMet where there is something else to answer.
    """

    def __init__(self, hadoop_home: str | None, configs: Mapping[str, str]) -> None:
        self._files = remote_files(hadoop_home, dict(configs or {}))
        self._one = hdfs_utils.HDFSClient(hadoop_home, configs)

    def cat(self, hdfs_path: str | None = None) -> str:
        """A file as text, without a line's end at its end; nothing where there is none."""
        if not self.is_file(hdfs_path):
            return ""
        return self._files.read(str(hdfs_path)).rstrip("\n")

    def is_exist(self, hdfs_path: str | None = None) -> bool:
        """Whether there is something of that name."""
        return self._one.is_exist(hdfs_path)

    def is_dir(self, hdfs_path: str | None = None) -> bool:
        """Whether it is a folder."""
        return self._one.is_dir(hdfs_path)

    def is_file(self, hdfs_path: str | None = None) -> bool:
        """Whether it is a file."""
        return self._files.exists(str(hdfs_path), "f")

    def delete(self, hdfs_path: str) -> bool:
        """Removes a file or folder; True where there is none."""
        return self._one.delete(hdfs_path)

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Gives it another name. An existing one is replaced with `overwrite`."""
        return self._one.rename(hdfs_src_path, hdfs_dst_path, overwrite)

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """Makes a folder of this machine, and those around it."""
        Path(local_path).mkdir(parents=True, exist_ok=True)

    def makedirs(self, hdfs_path: str) -> bool:
        """Makes a folder, and those around it; True where it is there."""
        return self._one.makedirs(hdfs_path)

    def ls(self, hdfs_path: str) -> list[str]:
        """The paths of what is in a folder; none where it isn't there."""
        return self._one.ls(hdfs_path)

    def lsr(self, hdfs_path: str, excludes: Sequence[str] = []) -> list[str]:
        """The paths of all files below a folder, but those whose names `excludes` has."""
        found = self._one.lsr(hdfs_path)
        return [one for one in found if PurePosixPath(one).name not in excludes]

    @staticmethod
    def split_files(files: Sequence[str], trainer_id: int, trainers: int) -> list[str]:
        """A trainer's share of files: every `trainers`-th."""
        return shared_out(sorted(files), trainer_id, trainers)

    def download(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> list[str]:
        """Copies a file, or all files of a folder, to a folder here; their paths.

        EnforceNotMet where one can't be copied.
        """
        folder = self.is_dir(hdfs_path)
        found = self.lsr(hdfs_path) if folder else [hdfs_path]
        self.make_local_dirs(local_path)
        pairs = [(one, str(Path(local_path) / PurePosixPath(one).name)) for one in found]

        def copy(pair: tuple[str, str]) -> bool:
            target = Path(pair[1])
            if target.exists() and not overwrite:
                return True
            target.unlink(missing_ok=True)
            return repeated(retry_times, self._files.get, pair[0], pair[1])

        self._all(copy, pairs, multi_processes)
        return [target for _, target in pairs]

    def upload(
        self,
        hdfs_path: str,
        local_path: str,
        multi_processes: int = 5,
        overwrite: bool = False,
        retry_times: int = 5,
    ) -> None:
        """Copies a file, or all files of a folder here, into a folder there.

        EnforceNotMet where one can't be copied, or is there and isn't to be replaced.
        """
        here = Path(local_path)
        if not here.exists():
            raise EnforceNotMet(f"{local_path}: there is no such file")
        found = [one for one in here.rglob("*") if one.is_file()] if here.is_dir() else [here]
        self.makedirs(hdfs_path)
        pairs = [(f"{hdfs_path.rstrip('/')}/{one.name}", str(one)) for one in sorted(found)]

        def copy(pair: tuple[str, str]) -> bool:
            return self._one.upload(pair[0], pair[1], overwrite, retry_times)

        self._all(copy, pairs, multi_processes)

    def upload_dir(self, dest_dir: str, local_dir: str, overwrite: bool = False) -> bool:
        """Copies a folder of this machine there, as it is."""
        target = f"{dest_dir.rstrip('/')}/{Path(local_dir.rstrip('/')).name}"
        self.makedirs(dest_dir)
        return self._one.upload(target, local_dir, overwrite)

    @staticmethod
    def _all(
        copy: Callable[[tuple[str, str]], bool], pairs: Sequence[tuple[str, str]], several: int
    ) -> None:
        done = all_done(copy, pairs, max(1, several))
        failed = [pair for pair, one in zip(pairs, done, strict=True) if not one]
        if failed:
            raise EnforceNotMet(f"{failed[0][0]} and {failed[0][1]}: couldn't be copied")
