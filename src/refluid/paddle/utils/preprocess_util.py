"""`paddle.utils.preprocess_util`: lists of files, as programs made them before Fluid."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

_PICTURES = frozenset({"png", "bmp", "jpeg", "jpg"})


def save_file(data: Any, filename: str) -> None:
    """Pickles a value into a file."""
    Path(filename).write_bytes(pickle.dumps(data, protocol=2))


def save_list(l: Iterable[str], outfile: str) -> None:  # noqa: E741
    """Writes texts to a file, one per line."""
    Path(outfile).write_text("".join(f"{one}\n" for one in l), encoding="utf-8")


def exclude_pattern(f: str) -> bool:
    """Whether a file is one of the editor's: its name begins with a dot or ends with `~`."""
    return f.startswith(".") or f.endswith("~")


def list_dirs(path: str) -> list[str]:
    """Names of the folders in a folder."""
    return sorted(one.name for one in Path(path).iterdir() if one.is_dir())


def list_images(path: str, exts: Collection[str] = _PICTURES) -> list[str]:
    """Names of the pictures in a folder: by what follows the last dot."""
    return [name for name in list_files(path) if name.rpartition(".")[2].lower() in exts]


def list_files(path: str) -> list[str]:
    """Names of the files in a folder, without those that `exclude_pattern` knows."""
    names = sorted(one.name for one in Path(path).iterdir() if one.is_file())
    return [name for name in names if not exclude_pattern(name)]


def get_label_set_from_dir(path: str) -> dict[str, int]:
    """Numbers of the folders in a folder."""
    return {name: number for number, name in enumerate(list_dirs(path))}
