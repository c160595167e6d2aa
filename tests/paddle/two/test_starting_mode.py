"""How scripts start: with functions that run at once, or with programs, by the names they take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refluid.paddle as paddle
from refluid import fluid
from refluid.core import flags
from refluid.core.lazy_package import LazyPackage
from refluid.paddle import starting_mode
from refluid.paddle.alias import AliasFinder
from tests.started import refluid


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        starting_mode.watch()
        yield
        sys.modules["refluid.paddle"].__class__ = LazyPackage
        paddle.enable_static()


@pytest.mark.parametrize(
    ("names", "dynamic"),
    [
        ("nn", True),
        ("distributed fluid batch to_tensor", True),
        ("fluid dataset", False),
        ("static enable_static nn", False),
        ("__file__ version", False),
    ],
)
def test_names_tell(names: str, dynamic: bool) -> None:
    for name in names.split():
        starting_mode.taken(name)
    assert fluid.in_dygraph_mode() is dynamic


def test_modules_that_are_not_there_tell_nothing() -> None:
    """Scripts that also run on what came before Fluid try its modules first."""
    finder = AliasFinder()
    with pytest.raises(ModuleNotFoundError, match=r"paddle\.trainer"):
        finder.find_spec("paddle.trainer", None)
    assert finder.find_spec("paddle.v2", None) is not None
    assert not fluid.in_dygraph_mode()
    assert finder.find_spec("paddle.nn", None) is not None
    assert fluid.in_dygraph_mode()


def test_programs_that_began_go_on() -> None:
    fluid.data("x", [None, 3])
    starting_mode.taken("nn")
    assert not fluid.in_dygraph_mode()


def test_the_flag() -> None:
    with flags.override({"FLAGS_refluid_dynamic_start": False}):
        starting_mode.taken("nn")
    assert not fluid.in_dygraph_mode()


def test_attributes_tell() -> None:
    package = sys.modules["refluid.paddle"]
    vars(package).pop("ones", None)
    assert package.ones([2]).numpy().tolist() == [1.0, 1.0]
    paddle.set_device("cpu")  # after which whole numbers become fractions as before
    assert (paddle.to_tensor([3]) * 0.5).numpy().tolist() == [1.5]


def test_scripts_of_both_namespaces_have_methods(tmp_path: Path) -> None:
    """As of Paddle 2.0's beta: the device alone tells that functions run at once."""
    script = tmp_path / "mixed.py"
    script.write_text(
        "import numpy as np, paddle, paddle.fluid as fluid\n"
        "from paddle.jit import ProgramTranslator, TracedLayer\n"
        "paddle.set_device('cpu')\n"
        "paddle.framework.random._manual_program_seed(7)\n"
        "one = fluid.dygraph.Linear(2, 3)(fluid.dygraph.to_variable(np.ones([4, 2], 'float32')))\n"
        "ProgramTranslator().enable(False)\n"
        "print(one.unsqueeze(1).shape, fluid.default_startup_program().random_seed)\n"
    )
    assert "[4, 1, 3] 7" in refluid("run", str(script), check=True).stdout


def test_scripts(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle.distributed as dist\n"
        "from paddle.io import Dataset\n"
        "import paddle\n"
        "print(paddle.mean(paddle.to_tensor([1, 2]) / 4).numpy())\n"
    )
    assert "0.375" in refluid("run", str(script), check=True).stdout


def test_the_older_name_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import paddle.v2 as paddle\n"
        "import paddle.v2.dataset.uci_housing as housing\n"
        "import paddle.v2.fluid as older\n"
        "from paddle.v2 import batch\n"
        "import paddle as now\n"
        "import paddle.fluid as fluid\n"
        "assert paddle is now and older is fluid and batch is now.batch\n"
        "assert housing is now.dataset.uci_housing and not fluid.in_dygraph_mode()\n"
    )
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
