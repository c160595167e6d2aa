"""A pickled table is read without executing what it names."""

from __future__ import annotations

import lzma
import pickle
from pathlib import Path

import numpy as np
import pytest

from examples.flights_data import read_table


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(lzma.compress(content))
    return path


def test_other_names_are_refused(tmp_path: Path) -> None:
    evil = _write(tmp_path / "x", b"cposix\nsystem\n(S'true'\ntR.")
    with pytest.raises(pickle.UnpicklingError, match=r"posix\.system has no place in a table"):
        read_table(evil)


def test_columns_have_their_names(tmp_path: Path) -> None:
    numbers = pickle.dumps(np.arange(6).reshape(2, 3), protocol=4)[2:-1]
    names = pickle.dumps(np.array(["a", "b"], dtype=object), protocol=4)[2:-1]
    table = (
        b"\x80\x04cpandas.core.frame\nDataFrame\n)R}X\x04\x00\x00\x00_mgr"
        b"cpandas.core.internals.managers\nBlockManager\n"
        b"cpandas._libs.internals\n_unpickle_block\n("
        + _unframed(numbers)
        + b"cbuiltins\nslice\n(K\x00K\x02K\x01tRK\x02tR\x85"
        b"cpandas.core.indexes.base\n_new_Index\n(cpandas.core.indexes.base\nIndex\n"
        b"}X\x04\x00\x00\x00data" + _unframed(names) + b"stR\x85\x86Rsb."
    )
    columns = read_table(_write(tmp_path / "x", table))
    assert {name: column.tolist() for name, column in columns.items()} == {
        "a": [0, 1, 2],
        "b": [3, 4, 5],
    }


def _unframed(content: bytes) -> bytes:
    """A pickle's inside without the frame that protocol 4 puts around it."""
    return content[9:] if content[:1] == b"\x95" else content
