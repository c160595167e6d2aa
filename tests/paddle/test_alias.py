"""`import paddle` finds refluid's modules, the same objects."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refluid.paddle
from refluid.paddle.alias import AliasFinder, real_name


@pytest.fixture(autouse=True)
def aliased() -> Iterator[None]:
    refluid.paddle.install()
    yield
    refluid.paddle.uninstall()


def test_names_map_to_refluids() -> None:
    assert real_name("paddle") == "refluid.paddle"
    assert real_name("paddle.reader") == "refluid.paddle.reader"
    assert real_name("paddle.fluid.layers") == "refluid.fluid.layers"
    assert real_name("paddle.fluidity") == "refluid.paddle.fluidity"
    assert real_name("paddlepaddle") is None


@pytest.mark.parametrize(
    "alias",
    ["paddle", "paddle.fluid", "paddle.reader", "paddle.reader.decorator", "paddle.fluid.executor"],
)
def test_modules_are_the_same_objects(alias: str) -> None:
    real = real_name(alias)
    assert real is not None
    module = importlib.import_module(alias)
    assert module is importlib.import_module(real)
    assert module.__name__ == real
    assert module.__spec__ is not None
    assert module.__spec__.name == real


def test_import_statements() -> None:
    import paddle
    import paddle.fluid as fluid
    from paddle.reader import shuffle

    assert paddle.fluid is fluid is refluid.fluid
    assert paddle.__version__ == "1.8.5"
    assert shuffle is refluid.paddle.reader.shuffle


def test_missing_module_says_who_lacks_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"refluid stands in for paddle") as raised:
        importlib.import_module("paddle.fluid.no_such_module")
    assert raised.value.name == "paddle.fluid.no_such_module"


def test_install_twice_adds_one_finder() -> None:
    refluid.paddle.install()
    assert sum(isinstance(finder, AliasFinder) for finder in sys.meta_path) == 1


def test_uninstall_leaves_nothing() -> None:
    importlib.import_module("paddle.fluid")
    refluid.paddle.uninstall()
    assert not refluid.paddle.installed()
    assert not [name for name in sys.modules if real_name(name)]


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "paddle.py").write_text("origin = 'another'\n")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_installed_paddle_is_shadowed(tmp_path: Path) -> None:
    ran = _run(
        "import refluid.paddle; refluid.paddle.install(); import paddle; print(paddle.__name__)",
        tmp_path,
    )
    assert ran.stdout == "refluid.paddle\n", ran.stderr


def test_paddle_imported_before_is_an_error(tmp_path: Path) -> None:
    ran = _run("import paddle, refluid.paddle; refluid.paddle.install()", tmp_path)
    assert ran.returncode == 1
    assert "another paddle is imported already" in ran.stderr
