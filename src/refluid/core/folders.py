"""Where in a folder the value of a variable is kept: always inside of it, whatever its name."""

from __future__ import annotations

import os
from pathlib import Path

from refluid.core.errors import EnforceNotMet


def file_of(folder: str | os.PathLike[str], name: str) -> Path:
    """The file of the variable `name` in a folder; a name such as `a/b` is in a sub-folder.

    Raises EnforceNotMet for a name that leads out of the folder or can't be a file's: programs
    come from elsewhere, and may be made to read or to overwrite any file of the user.
    """
    usual = os.path.normpath(name) if name else ""
    leaves = os.path.isabs(usual) or usual.split(os.sep)[0] == os.pardir
    if leaves or usual in ("", os.curdir) or "\0" in name:
        raise EnforceNotMet(
            f"the variable {name!r} can't be kept in a file of the folder {str(folder)!r}: its "
            "name leads out of the folder, or is no name of a file. Rename the variable, or give "
            "filename= to keep all variables in one file"
        )
    return Path(folder) / usual


def file_to_write(folder: str | os.PathLike[str], name: str) -> Path:
    """As `file_of`, but EnforceNotMet also where a link in the folder leads out of it."""
    path = file_of(folder, name)
    try:
        inside = path.resolve().is_relative_to(Path(folder).resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise EnforceNotMet(f"{str(path)!r} can't be the name of a file: {error}") from error
    if not inside:
        raise EnforceNotMet(
            f"{path} is, or is behind, a link out of the folder: the variable {name!r} would be "
            f"written to {path.resolve()}. Remove the link, or save into another folder"
        )
    return path
