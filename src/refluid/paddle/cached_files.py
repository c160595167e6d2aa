"""Where the files of `paddle.dataset` are: Fluid's cache folder, or what packages brought.

Nothing is downloaded unless `REFLUID_DOWNLOAD=1` asks for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
import urllib.request
from functools import cache
from pathlib import Path

from refluid.core.flags import environment_str

_LOGGER = logging.getLogger("refluid")
_CHUNK = 1 << 20
_SECONDS = 60
_ATTEMPTS = 3
ASKED = "REFLUID_DOWNLOAD"


class DataMissing(RuntimeError):
    """A file of a data set is not there; the message says which, and where to put it."""


def data_home() -> Path:
    """`$PADDLE_HOME/dataset`, where that is set, else Fluid's `~/.cache/paddle/dataset`."""
    home = environment_str("PADDLE_HOME") or os.path.join("~", ".cache", "paddle")
    return Path(home).expanduser() / "dataset"


def package_data() -> Path:
    """Where scripts/fetch_data.py installs: `$REFLUID_DATA`, or `.data` of the repository."""
    return Path(environment_str("REFLUID_DATA") or Path(__file__).resolve().parents[3] / ".data")


def md5_of(path: str | os.PathLike[str]) -> str:
    """The MD5 checksum of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


@cache
def _md5_once(path: str, _size: int, _changed: int) -> str:
    return md5_of(path)


def file_name(url: str) -> str:
    """The name under which Fluid keeps what a URL gives: its last part, `%2F` and all."""
    return url.rsplit("/", 1)[-1]


def local_file(home: Path, module: str, url: str, md5: str, name: str | None = None) -> Path:
    """The file of a data set in the cache folder `home`, downloaded first where that is asked for.

    A file of another checksum is used, with a warning, unless it can be downloaded anew.
    Raises DataMissing where there is none.
    """
    name = name or file_name(url)
    names = dict.fromkeys([name, name.rsplit("%2F", 1)[-1]])
    here = next((path for one in names if (path := home / module / one).is_file()), None)
    found = _checksum(here) if here is not None else None
    if here is not None and (found == md5 or not md5):
        return here
    if _is_asked():
        return _download(url, home / module / name, md5)
    if here is None:
        raise DataMissing(_advice(home, module, url, md5, list(names)))
    _LOGGER.warning(
        "%s has md5 %s; the file that Fluid reads has %s. It is read as it is", here, found, md5
    )
    return here


def _checksum(path: Path) -> str:
    about = path.stat()
    return _md5_once(str(path), about.st_size, about.st_mtime_ns)


def _is_asked() -> bool:
    return (environment_str(ASKED) or "0").lower() not in ("0", "false", "off", "no")


def _advice(home: Path, module: str, url: str, md5: str, names: list[str]) -> str:
    names_read = " or ".join(names)
    checksum = f" (md5 {md5})" if md5 else ""
    return (
        f"the data set {module} needs {names_read}{checksum}, and {home / module} has no such "
        f"file. Put it there, or set {ASKED}=1 to have it downloaded from {url}. "
        "PADDLE_HOME names another folder than ~/.cache/paddle"
    )


def _download(url: str, target: Path, md5: str) -> Path:
    """Downloads into a temporary file, checks it, and gives it its name in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"{target} not found, downloading {url}", file=sys.stderr, flush=True)
    trouble = ""
    for _ in range(_ATTEMPTS):
        handle, partial = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "refluid"})
            with (
                os.fdopen(handle, "wb") as file,
                urllib.request.urlopen(request, timeout=_SECONDS) as answer,
            ):
                shutil.copyfileobj(answer, file, _CHUNK)
            found = md5_of(partial)
            if not md5 or found == md5:
                os.replace(partial, target)
                return target
            trouble = f"its md5 is {found}, not {md5}"
        except (OSError, ValueError) as error:
            trouble = str(error)
        finally:
            Path(partial).unlink(missing_ok=True)
    raise DataMissing(f"{url} can't be had, in {_ATTEMPTS} attempts: {trouble}")
