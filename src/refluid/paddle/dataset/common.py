"""`paddle.dataset.common`: the cache folder, and files of samples."""

from __future__ import annotations

import glob
import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from refluid.paddle.cached_files import DataMissing, data_home, local_file, md5_of

__all__ = ["DATA_HOME", "cluster_files_reader", "download", "md5file", "split"]

# Scripts read it and may change it; it is looked at whenever a file is needed.
DATA_HOME = str(data_home())

Reader = Callable[[], Iterator[Any]]


def must_mkdirs(path: str) -> None:
    """Makes a folder and those above it, unless they are there."""
    Path(path).mkdir(parents=True, exist_ok=True)


def md5file(fname: str) -> str:
    """The MD5 checksum of a file, in hexadecimal digits."""
    return md5_of(fname)


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of a data set's file in the folder `module_name` of the cache.

    It is downloaded only where the environment says `REFLUID_DOWNLOAD=1`, and its MD5 is checked.
    Raises DataMissing, a RuntimeError, where the file is not there.
    """
    return str(local_file(Path(DATA_HOME), module_name, url, md5sum, save_name))


def fetch_all() -> None:
    """Looks for the files of all data sets, downloading them where that is asked for."""
    missing = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        fetch = getattr(importlib.import_module(f"{__package__}.{module.name}"), "fetch", None)
        try:
            if fetch is not None:
                fetch()
        except DataMissing as error:
            missing.append(str(error))
    if missing:
        raise DataMissing("\n".join(missing))


def split(
    reader: Reader,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[Any, IO[bytes]], Any] = pickle.dump,
) -> None:
    """Writes the samples of a reader to files of `line_count` each, which `suffix` names."""
    lines: list[Any] = []
    number = 0
    for sample in reader():
        lines.append(sample)
        if len(lines) == line_count:
            _dump(lines, suffix % number, dumper)
            lines, number = [], number + 1
    if lines:
        _dump(lines, suffix % number, dumper)


def _dump(lines: list[Any], name: str, dumper: Callable[[Any, IO[bytes]], Any]) -> None:
    with open(name, "wb") as file:
        dumper(lines, file)


def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int,
    loader: Callable[[IO[bytes]], Any] = pickle.load,
) -> Reader:
    """A reader of the files that are this trainer's: each `trainer_count`-th of those in order."""

    def reader() -> Iterator[Any]:
        for number, name in enumerate(sorted(glob.glob(files_pattern))):
            if number % trainer_count == trainer_id:
                with open(name, "rb") as file:
                    yield from loader(file)

    return reader
