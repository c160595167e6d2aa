"""`print` of Python 2 where Python 3 reads it as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from refluid.porting.loading import parsed_old
from tests.started import refluid

_PRINTS = """\
import sys
def end(number):
    print >> sys.stdout, "%d passes" % number, 7 / 2
    print >> sys.stdout, "no line",
    print >> sys.stdout
end(3)
"""


def test_print_to_a_file_makes_a_file_python_2(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PRINTS)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.stdout == "3 passes 3\nno line \n", ran.stderr
    assert "train.py is Python 2 and runs translated" in ran.stderr


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (_PRINTS, 3),
        ("print >> 'out'\n", 1),
        ("print >> 'out', 1\n", 1),
        ("print = 5\nprint >> 1\n", None),
        ("import six\nprint >> 'out', six.PY3\n", None),
        ("import six\nprint >> 'out', six.moves.xrange(2)\n", 2),
        ("from __future__ import print_function\nprint >> 'out', 1\n", None),
        ("x = 8 >> 1, 2\nprint(8 >> 1)\n", None),
    ],
)
def test_which_files_are_translated_for_it(source: str, line: int | None) -> None:
    assert parsed_old(source.encode(), "train.py")[1] == line


def test_bytes_are_printed_as_text(tmp_path: Path) -> None:
    """In Python 2 `encode` gave a `str`."""
    text = "# -*- coding: utf-8 -*-\nprint u'caf\\u00e9'.encode('utf-8'), 'b', b'c'\nprint\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.stdout == "café b c\n\n", ran.stderr
