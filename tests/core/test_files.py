"""Files appear complete or not at all, and are read to their last byte."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest
import torch

from refluid.core.codec import write_lod_tensor
from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file
from refluid.core.writing import write_file


@pytest.mark.parametrize("durable", [True, False])
def test_write_and_read(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "made" / "@LR_DECAY_COUNTER@"
    tensor = torch.rand(3, 4)
    write_file(path, lambda file: write_lod_tensor(file, tensor), durable)
    assert torch.equal(decode_file(path).tensor, tensor)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o777 == (tmp_path / "made").stat().st_mode & 0o666


def test_a_failing_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(EnforceNotMet, match="w: cannot be written: disk full"):
        write_file(path, fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_file(tmp_path / "link", lambda file: file.write(b"x"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


def test_trailing_bytes(tmp_path: Path) -> None:
    def two(file: BinaryIO) -> None:
        write_lod_tensor(file, torch.zeros(2))
        file.write(b"more")

    write_file(tmp_path / "w", two)
    with pytest.raises(EnforceNotMet, match="4 bytes follow"):
        decode_file(tmp_path / "w")


def test_missing_and_empty(tmp_path: Path) -> None:
    with pytest.raises(EnforceNotMet, match=r"w: cannot be opened: No such file"):
        decode_file(tmp_path / "w")
    (tmp_path / "w").touch()
    with pytest.raises(EnforceNotMet, match="0 are left"):
        decode_file(tmp_path / "w")
