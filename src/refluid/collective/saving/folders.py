"""Numbered folders of checkpoints, of which one has its name only once it is whole."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refluid.core.errors import EnforceNotMet

_NAME = re.compile(r"checkpoint\.(\d+)")
_MANIFEST = "checkpoint.json"
VERSION = 2


def folder_of(root: Path, number: int) -> Path:
    """Of a whole checkpoint."""
    return root / f"checkpoint.{number}"


def numbers(root: Path) -> list[int]:
    """Of the whole checkpoints, oldest first."""
    if not root.is_dir():
        return []
    found = [_NAME.fullmatch(one.name) for one in root.iterdir() if (one / _MANIFEST).is_file()]
    return sorted(int(one[1]) for one in found if one)


def begin(root: Path, number: int) -> Path:
    """An empty folder to write a checkpoint in; what was left of an earlier try is removed."""
    begun = root / f"checkpoint.{number}.begun"
    try:
        if begun.exists():
            shutil.rmtree(begun)
        begun.mkdir(parents=True)
    except OSError as error:
        raise EnforceNotMet(f"a checkpoint can't be written to {begun}: {error}") from error
    return begun


def finish(begun: Path, manifest: Mapping[str, Any], keep: int) -> Path:
    """Gives the folder its name, and removes all but the last `keep` checkpoints."""
    text = json.dumps({"version": VERSION, **manifest}, indent=1)
    (begun / _MANIFEST).write_text(text, encoding="utf-8")
    for path in [*begun.rglob("*"), begun]:
        _sync(path)
    final = begun.with_suffix("")
    begun.rename(final)
    _sync(final.parent)
    for number in numbers(final.parent)[:-keep]:
        shutil.rmtree(folder_of(final.parent, number), ignore_errors=True)
    return final


def give_up(begun: Path) -> None:
    """Removes what was begun."""
    shutil.rmtree(begun, ignore_errors=True)


def manifest_of(folder: Path) -> dict[str, Any]:
    """What is said of a checkpoint; EnforceNotMet where it is damaged or another version's."""
    try:
        found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        version = found["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnforceNotMet(f"{folder / _MANIFEST} is damaged: {error}") from error
    if version != VERSION:
        raise EnforceNotMet(
            f"{folder / _MANIFEST} is of version {version}, this refluid reads {VERSION}"
        )
    return dict(found)


def _sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on disk."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
