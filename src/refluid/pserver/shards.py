"""Tensors in files of safetensors with an index beside them, as Hugging Face writes large models.

    FOLDER/model-00001-of-00003.safetensors    some of the tensors
    FOLDER/model.safetensors.index.json        which file has which, what else there is to know

The index has a checksum of each file: one that was cut or changed is refused.
"""

from __future__ import annotations

import importlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.writing import write_files

INDEX = "model.safetensors.index.json"
_SUFFIX = ".safetensors"
_READ = 2**22


@dataclass(frozen=True)
class ShardPiece:
    """Tensors that are made when they are written: their names, all bytes, and what makes them."""

    names: tuple[str, ...]
    nbytes: int
    make: Callable[[], Mapping[str, Tensor]]


def write_shards(
    folder: str | Path, pieces: Sequence[ShardPiece], about: Mapping[str, Any], most: int = 2**28
) -> None:
    """Writes pieces to files of about `most` bytes each, one after the other, and their index.

    about: goes to the index's metadata. All take their places together; files of an earlier index
    in the folder are removed then. EnforceNotMet where they can't be written.
    """
    save: Any = _library("safetensors.torch").save
    home, groups = Path(folder), _grouped(pieces, most)
    names = [f"model-{n + 1:05d}-of-{len(groups):05d}{_SUFFIX}" for n in range(len(groups))]
    sums: dict[str, str] = {}
    sizes: list[int] = []

    def shard(name: str, group: Sequence[ShardPiece], file: BinaryIO) -> None:
        found = {key: value for piece in group for key, value in piece.make().items()}
        sizes.append(sum(value.nbytes for value in found.values()))
        raw = save({key: value.contiguous() for key, value in found.items()}, {"format": "pt"})
        sums[name] = f"{zlib.crc32(raw):08x}"
        file.write(raw)

    def index(file: BinaryIO) -> None:
        told = {"total_size": sum(sizes), "crc32": sums, **about}
        where = {key: name for name, group in held for piece in group for key in piece.names}
        file.write(json.dumps({"metadata": told, "weight_map": where}, indent=2).encode())

    held = list(zip(names, groups, strict=True))
    former = _listed(home)
    files = [(home / name, partial(shard, name, group)) for name, group in held]
    write_files([*files, (home / INDEX, index)])
    for name in former - set(names):
        (home / name).unlink(missing_ok=True)


def is_sharded(folder: str | Path) -> bool:
    """Whether a folder has such an index."""
    return (Path(folder) / INDEX).is_file()


class ShardedTensors:
    """The tensors of a folder, each read when it is asked for.

    EnforceNotMet where the index is damaged; when a tensor is asked for, where its file is.
    """

    def __init__(self, folder: str | Path) -> None:
        self._home = Path(folder)
        told = _index(self._home)
        self.about: dict[str, Any] = told["metadata"]
        self._where: dict[str, str] = told["weight_map"]
        self._open: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """Of all tensors."""
        return list(self._where)

    @property
    def files(self) -> list[str]:
        """Of all tensors, each once."""
        return sorted(set(self._where.values()))

    def read(self, name: str) -> Tensor:
        """The tensor of that name."""
        if name not in self._where:
            raise EnforceNotMet(f"{self._home / INDEX} knows no tensor {name!r}")
        file = self._where[name]
        path = self._home / file
        try:
            if file not in self._open:
                self._open[file] = self._checked(path)
            found: Tensor = self._open[file].get_tensor(name)
        except (OSError, _library("safetensors").SafetensorError) as error:
            raise _damaged(path, str(error)) from error
        return found

    def _checked(self, path: Path) -> Any:
        """A file, opened, once its checksum is that of the index."""
        expected = self.about.get("crc32", {}).get(path.name)
        found = 0
        with path.open("rb") as file:
            for part in iter(lambda: file.read(_READ), b""):
                found = zlib.crc32(part, found)
        if expected is not None and f"{found:08x}" != expected:
            raise _damaged(path, f"its checksum is {found:08x}, and not {expected}")
        return _library("safetensors").safe_open(str(path), "pt")


def _index(home: Path) -> dict[str, Any]:
    path = home / INDEX
    try:
        told = json.loads(path.read_bytes())
        where, about = told["weight_map"], told["metadata"]
        plain = all(isinstance(one, str) and Path(one).name == one for one in where.values())
        if not plain or not isinstance(about, dict):
            raise ValueError("it names files that are not beside it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    found: dict[str, Any] = told
    return found


def _damaged(path: Path, reason: str) -> EnforceNotMet:
    return EnforceNotMet(
        f"{path} is damaged or missing: {reason}. Load from another folder, or save anew"
    )


def _listed(home: Path) -> set[str]:
    """The files of the index that is there, if any can be read."""
    try:
        return set(_index(home)["weight_map"].values())
    except EnforceNotMet:
        return set()


def _grouped(pieces: Sequence[ShardPiece], most: int) -> list[list[ShardPiece]]:
    """Neighbours that fit into a file together; at least one file."""
    groups: list[list[ShardPiece]] = [[]]
    size = 0
    for piece in pieces:
        if groups[-1] and size + piece.nbytes > most:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += piece.nbytes
    return groups


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise EnforceNotMet(
            "tables in files of safetensors need it: pip install 'refluid[tables]'"
        ) from error
