"""`import paddle.fluid` costs nothing, and what it stands for is the same at its first use."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import refluid.fluid
import refluid.paddle
from refluid.core.lazy_package import LazyPackage
from refluid.fluid import public
from tests.golden import GOLDEN, needs_golden
from tests.started import run

SHIM = Path(refluid.fluid.__file__).parent.parent / "paddle" / "for_pipes"
# Modules that a data generator in a pipe is spared.
HEAVY = ("torch", "numpy", "numba", "google", "rich", "typer", "fsspec", "psutil")


def _said(code: str, *, before_torch: bool = False) -> str:
    """What a process says in which `import paddle` finds refluid, as in a pipe command."""
    path = os.pathsep.join([str(SHIM), str(SHIM.parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    if before_torch:
        command = [sys.executable, "-c", code]
        said = subprocess.run(command, env=environment, capture_output=True, text=True)
    else:
        said = run("-c", code, environment=environment)
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "import paddle.fluid.incubate.data_generator as dg",
        "from paddle.fluid.incubate.data_generator import MultiSlotDataGenerator",
        "import paddle.fluid as fluid; fluid.incubate.data_generator",
        "import paddle, paddle.fluid as fluid; from paddle.fluid import data_generator",
    ],
)
def test_a_data_generator_imports_nothing_heavy(statement: str) -> None:
    listed = "sorted({name.partition('.')[0] for name in sys.modules})"
    modules = _said(f"{statement}; import sys; print(*{listed})", before_torch=True).split()
    assert "paddle" in modules and "refluid" in modules
    assert not set(HEAVY) & set(modules)
    assert len(modules) < 100


def test_a_generator_may_use_all_of_fluid() -> None:
    code = (
        "import paddle.fluid.incubate.data_generator as dg, paddle, paddle.fluid as fluid;"
        "print(fluid.layers.fc(fluid.data('x', [None, 3]), 2).shape, dg is "
        "fluid.incubate.data_generator, paddle.fluid is fluid)"
    )
    assert _said(code) == "(-1, 2) True True"


@pytest.mark.parametrize(
    "before",
    [
        "pass",
        "import paddle.fluid.data, paddle.batch",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in (
                "import paddle.fluid.layers",
                "from paddle.fluid.data import data; from paddle.batch import batch",
            )
        ),
        "import paddle.fluid as f; f.Executor; import paddle.fluid.data, paddle.batch",
    ],
)
def test_functions_with_the_name_of_a_module(before: str) -> None:
    code = (
        f"{before}; import paddle, paddle.fluid as fluid;"
        "print(type(fluid.data).__name__, type(paddle.batch).__name__)"
    )
    assert _said(code) == "function function"


def test_all_public_names_are_there() -> None:
    assert isinstance(refluid.fluid, LazyPackage)
    for name in public.__all__:
        assert getattr(refluid.fluid, name) is getattr(public, name)
    assert set(public.__all__) <= set(dir(refluid.fluid))
    assert "batch" in dir(refluid.paddle) and "__version__" in dir(refluid.paddle)


def test_star_imports() -> None:
    code = "from paddle.fluid import *; from paddle import *; print(Executor.__name__, layers.fc)"
    assert _said(code).startswith("Executor <function fc")


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"refluid does not have fluid\.nothing yet"):
        refluid.fluid.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute '_nothing'"):
        refluid.fluid._nothing  # noqa: B018


MODULES = sorted(found.name for found in pkgutil.iter_modules(refluid.fluid.__path__))
FIRST = [name for name in MODULES if name in ("layers", "dataset", "io", "optimizer", "contrib")]


def _import_first(names: list[str]) -> str:
    """Imports each module in a process of its own that has imported nothing else of refluid."""
    return _said(
        f"""
import os, torch
for name in {names!r}:
    child = os.fork()
    if not child:
        try:
            __import__("paddle.fluid." + name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""
    )


def test_modules_may_be_imported_first() -> None:
    assert _import_first(FIRST) == ""


@pytest.mark.slow
def test_every_module_may_be_imported_first() -> None:
    assert _import_first(MODULES) == ""


def test_users_see_fluids_modules_only() -> None:
    code = (
        "import paddle.fluid as fluid, refluid.fluid.datasets.base;"
        "from refluid.fluid.clipping import gradients as gradient_clip;"
        "print(*(hasattr(fluid, name) for name in ('clip', 'gradient_clip', 'dataset_base',"
        " 'public', 'dataset', 'executor', 'storing')), gradient_clip.__name__)"
    )
    shown = "True False False False True True False refluid.fluid.clipping.gradients"
    assert _said(code) == shown


@needs_golden
def test_fluids_modules_are_those_of_fluid() -> None:
    surface = json.loads((GOLDEN / "api_surface.json").read_text())["modules"]
    of_fluid = {name.split(".")[2] for name in surface if name.startswith("paddle.fluid.")}
    folder = Path(refluid.fluid.__file__).parent
    here = {one.name for one in pkgutil.iter_modules([str(folder)])}
    older = {"async_executor", "data_generator", "dygraph_grad_clip"}
    assert vars(refluid.fluid)["_modules"] == (here & of_fluid) | older
