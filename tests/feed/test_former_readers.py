"""Readers of arrays, text files and commands, and one sample again and again."""

from __future__ import annotations

import gzip
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refluid.feed.former_readers import Fake, PipeReader, np_array, text_file


def _written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return shlex.quote(str(path))


def test_elements_and_rows() -> None:
    assert list(np_array([1, 2, 3])()) == [1, 2, 3]
    rows = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(list(np_array(rows)()), rows)
    reader = np_array(7)
    assert [list(reader()) for _ in range(2)] == [[7], [7]]


def test_lines_of_a_file(tmp_path: Path) -> None:
    _written(tmp_path / "a", "one\n\ntwo é\n last")
    assert list(text_file(str(tmp_path / "a"))()) == ["one", "", "two é", " last"]


def test_one_sample_again_and_again() -> None:
    read = []

    def reader() -> Iterator[int]:
        for n in range(5):
            read.append(n)
            yield n

    fake = Fake()
    again = fake(reader, 3)
    assert [*again(), *again(), *fake(reader, 1)()] == [0] * 7
    assert read == [0]


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_a_command(tmp_path: Path, seed: int) -> None:
    """Whatever the pieces are that a pipe gives, also within a letter and within a line's end."""
    random = np.random.default_rng(seed)
    parts = ["é", "ab", "\r", "\r\n", "\n", "漢字", " "]
    text = "".join(random.choice(parts, size=200))
    name = _written(tmp_path / "a b", text)
    (tmp_path / "z").write_bytes(
        gzip.compress(text[:77].encode()) + gzip.compress(text[77:].encode())
    )
    size = int(random.integers(1, 40))
    for line_break in ("\n", "\r\n"):
        lines = text.split(line_break)
        wanted = lines if lines[-1] else lines[:-1]
        plain = PipeReader(f"cat {name}", bufsize=size)
        assert list(plain.get_line(line_break=line_break)) == wanted
        zipped = PipeReader(f"cat {tmp_path / 'z'}", size, "gzip")
        assert list(zipped.get_line(line_break=line_break)) == wanted
    assert "".join(PipeReader(f"cat {name}", size).get_line(cut_lines=False)) == text


def test_what_fails() -> None:
    with pytest.raises(TypeError, match="command must be a string"):
        PipeReader(["cat", "a"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'plain' or 'gzip', not 'zip'"):
        PipeReader("cat a", file_type="zip")
    with pytest.raises(OSError, match="no-such-program"):
        PipeReader("no-such-program")
    code = shlex.quote("print(1); raise SystemExit(3)")
    lines = PipeReader(f"{sys.executable} -c {code}").get_line()
    assert next(lines) == "1"
    with pytest.raises(RuntimeError, match="status 3"):
        next(lines)


def test_compressed_data_that_ends_early(tmp_path: Path) -> None:
    (tmp_path / "z").write_bytes(gzip.compress(b"abc\n" * 999)[:-9])
    with pytest.raises(EOFError, match="ends within"):
        list(PipeReader(f"cat {tmp_path / 'z'}", file_type="gzip").get_line())


def test_a_command_that_is_not_read_to_its_end() -> None:
    reader = PipeReader("yes")
    lines = reader.get_line()
    assert next(lines) == "y"
    lines.close()
    assert reader.process.poll() is not None
