"""Modules that a package's files import by their bare names, as in Python 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.started import refluid


def _package(folder: Path, **files: str) -> None:
    made = folder / "package"
    (made / "inner").mkdir(parents=True)
    (made / "inner" / "__init__.py").write_text("NAME = __name__\n")
    for name, text in {"__init__": "", "other": "NAME = __name__\n", **files}.items():
        (made / f"{name}.py").write_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from other import NAME", "package.other"),
        ("from other import *", "package.other"),
        ("import json, other as o\nNAME = o.NAME", "package.other"),
        ("import other, json\nNAME = other.NAME", "package.other"),
        ("from inner import NAME", "package.inner"),
        ("print 'Python 2'\nfrom other import NAME", "package.other"),
        ("def get():\n    from other import NAME\n    return NAME\nNAME = get()", "package.other"),
        (
            "import os, sys\nsys.path.append(os.path.dirname(__file__))\nfrom other import NAME",
            "other",
        ),
        ("from json import dumps\nNAME = dumps.__module__", "json"),
    ],
)
def test_they_are_found_beside_the_file_where_nothing_else_is(
    tmp_path: Path, text: str, expected: str
) -> None:
    _package(tmp_path, network=f"{text}\n", json="NAME = 'this is not it'\n")
    (tmp_path / "train.py").write_text("from package.network import NAME\nprint(NAME)\n")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == expected
    helped = expected.startswith("package.") and "print '" not in text  # 2to3 does so itself
    assert ("of the same package (" in ran.stderr) == helped


def test_a_script_of_python_2_is_part_of_no_package(tmp_path: Path) -> None:
    _package(tmp_path, train="from other import NAME\nprint NAME, __name__\n")
    ran = refluid("run", "train.py", folder=tmp_path / "package")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "other __main__"


@pytest.mark.parametrize("missing", ["import nowhere", "from other import lacking"])
def test_what_lacks_otherwise_is_an_error_as_ever(tmp_path: Path, missing: str) -> None:
    _package(tmp_path, network=f"{missing}\n", other="import nowhere\n")
    (tmp_path / "train.py").write_text("import package.network\n")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 1
    assert "ModuleNotFoundError: No module named 'nowhere'" in ran.stderr


def test_one_elsewhere_that_lacks_the_name_is_not_it(tmp_path: Path) -> None:
    _package(
        tmp_path, network="import other as found\nfrom other import NAME\nWHO = found.__name__"
    )
    (tmp_path / "other.py").write_text("NUMBER = 1\n")
    (tmp_path / "train.py").write_text(
        "from package.network import NAME, WHO\nfrom other import NUMBER\nprint(NAME, WHO)\n"
    )
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "package.other other"


def test_one_elsewhere_that_imports_the_file_itself_is_not_it(tmp_path: Path) -> None:
    _package(tmp_path, network="from other import NAME\nLATER = 1")
    (tmp_path / "other.py").write_text("from package.network import LATER\n")
    (tmp_path / "train.py").write_text("from package.network import NAME\nprint(NAME)\n")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "package.other"


def test_a_module_beside_without_the_name_is_an_error_as_ever(tmp_path: Path) -> None:
    _package(
        tmp_path,
        network="import sys, os\nsys.path.insert(0, os.path.dirname(__file__))\n"
        "from other import lacking",
    )
    (tmp_path / "train.py").write_text("import package.network\n")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 1
    assert "cannot import name 'lacking' from 'other'" in ran.stderr
