"""Rows on disk: `RowStore` has those of a server's tables, in LMDB.

What was written since the last `commit` is gone after a crash: all of it is one transaction, which
readers and writers of this process see through, and whose end is a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.kernels.mapped_pages import give_back, mapped_ranges

# Address space that files may grow to; they take what they have.
_MOST_BYTES = 2**42
_MOST_TABLES = 4096
_COMMIT = b"commit"
# After so many rows pages of the file are given back: each row read may map 64 KB.
_GIVES_BACK = 2**14
_FILES = ("data.mdb", "lock.mdb")


class RowStore:
    """Rows on disk below a folder. `commits`: the number of the last commit, 0 where there is none.

    EnforceNotMet where lmdb isn't installed. Not for several threads at once, nor two processes.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._env = _lmdb().open(
            str(self.folder),
            map_size=_MOST_BYTES,
            max_dbs=_MOST_TABLES,
            lock=False,
            readahead=False,
            metasync=True,
        )
        self._own = self._env.open_db(b"@STORE")
        self._mapped = mapped_ranges(self.folder / _FILES[0])
        self._touched = 0
        self.transaction = self._env.begin(write=True)

    @property
    def commits(self) -> int:
        """The number that the last commit was given, 0 before the first."""
        found = self.transaction.get(_COMMIT, db=self._own)
        return 0 if found is None else int.from_bytes(found, "little")

    def table(self, name: str, columns: Mapping[str, tuple[int, torch.dtype]]) -> StoredRows:
        """The rows of a table. columns: the width and type of each."""
        found = self._env.open_db(name.encode(), txn=self.transaction)
        return StoredRows(self, found, columns)

    def commit(self, number: int) -> None:
        """Makes all that was written last, all at once."""
        self.transaction.put(_COMMIT, number.to_bytes(8, "little"), db=self._own)
        self.transaction.commit()
        self.transaction = self._env.begin(write=True)

    def touched(self, rows: int) -> None:
        """So many rows were read or written: what that mapped of the file is given back in time."""
        self._touched += rows
        if self._touched > _GIVES_BACK:
            self._touched = 0
            give_back(self._mapped)

    @property
    def nbytes(self) -> int:
        """What the files take."""
        return sum(one.stat().st_blocks * 512 for one in self.folder.iterdir())

    def close(self) -> None:
        """Forgets what wasn't committed."""
        self.transaction.abort()
        self._env.close()


def emptied(folder: Path) -> Path:
    """The folder without what a store left there."""
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    return folder


def _lmdb() -> Any:
    try:
        import lmdb
    except ImportError:
        raise EnforceNotMet(
            "tables on disk need the package lmdb: pip install 'refluid[tables]'"
        ) from None
    return lmdb


class StoredRows:
    """The rows of one table: under each id the bytes of its columns."""

    def __init__(
        self, store: RowStore, database: Any, columns: Mapping[str, tuple[int, torch.dtype]]
    ) -> None:
        self._store, self._database, self._columns = store, database, dict(columns)
        sizes = [width * kind.itemsize for width, kind in self._columns.values()]
        self._ends = np.cumsum([0, *sizes]).tolist()
        self.size = self._ends[-1]

    @property
    def count(self) -> int:
        """How many there are."""
        found: int = self._store.transaction.stat(self._database)["entries"]
        return found

    def fetch(self, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Those of the ids that have a row, ascending, and their columns."""
        with self._store.transaction.cursor(self._database) as cursor:
            pairs = cursor.getmulti(_keys(ids.sort().values))
        self._store.touched(len(pairs))
        return self._read(pairs)

    def put(self, ids: Tensor, kept: Mapping[str, Tensor]) -> None:
        """Sets rows."""
        ids, order = ids.sort()
        parts = [kept[name][order].contiguous().view(torch.uint8) for name in self._columns]
        raw, size = torch.cat(parts, 1).numpy().tobytes(), self.size
        rows = [raw[start : start + size] for start in range(0, len(raw), size)]
        with self._store.transaction.cursor(self._database) as cursor:
            cursor.putmulti(zip(_keys(ids), rows, strict=True))
        self._store.touched(len(rows))

    def remove(self, ids: Tensor) -> None:
        """Drops rows, as far as there are."""
        for key in _keys(ids):
            self._store.transaction.delete(key, db=self._database)

    def clear(self) -> None:
        """Drops all rows."""
        self._store.transaction.drop(self._database, delete=False)

    def chunks(self, rows: int, start: int = 0) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """All rows by ascending id from the `start`-th on, so many at a time."""
        with self._store.transaction.cursor(self._database) as cursor:
            pairs = islice(cursor.iternext(), start, None)
            while found := list(islice(pairs, rows)):
                self._store.touched(len(found))
                yield self._read(found)

    def _read(self, pairs: Sequence[tuple[bytes, bytes]]) -> tuple[Tensor, dict[str, Tensor]]:
        keys = bytearray(b"".join([key for key, _ in pairs]))
        ids = (np.frombuffer(keys, ">u8").astype(np.uint64) ^ _SIGN).view(np.int64)
        raw = bytearray(b"".join([row for _, row in pairs]))
        rows = torch.from_numpy(np.frombuffer(raw, np.uint8).reshape(len(pairs), self.size))
        kept = {}
        for place, (name, (width, kind)) in enumerate(self._columns.items()):
            own = rows[:, self._ends[place] : self._ends[place + 1]]
            own = own.clone(memory_format=torch.contiguous_format)
            kept[name] = own.view(kind).view(len(pairs), width)
        return torch.from_numpy(ids), kept


# Flipped, so that keys have the order of their ids.
_SIGN = np.uint64(2**63)


def _keys(ids: Tensor) -> list[bytes]:
    raw = (ids.numpy().view(np.uint64) ^ _SIGN).astype(">u8").tobytes()
    return [raw[start : start + 8] for start in range(0, len(raw), 8)]
