"""What building and running networks imports: nothing that is not needed, and nothing late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.choices import often

# A program of many kinds of layers, trained until its steps are recorded.
NETWORK = """
import numpy as np
import paddle.fluid as fluid
image = fluid.data("image", [None, 1, 8, 8], "float32")
words = fluid.data("words", [None, 4], "int64")
label = fluid.data("label", [None, 1], "int64")
hidden = fluid.layers.conv2d(image, 4, 3, padding=1, act="relu")
hidden = fluid.layers.batch_norm(fluid.layers.pool2d(hidden, 2, "max", 2), act="leaky_relu")
hidden = fluid.layers.dropout(hidden, 0.1)
table = fluid.layers.reduce_mean(fluid.embedding(words, [10, 8]), dim=1)
joined = fluid.layers.concat([fluid.layers.flatten(hidden), table], axis=1)
joined = fluid.layers.layer_norm(fluid.layers.fc(joined, 16, act="tanh"))
joined = fluid.layers.elementwise_add(joined, fluid.layers.sigmoid(joined))
guess = fluid.layers.fc(joined, 3, act="softmax")
loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
accuracy = fluid.layers.accuracy(guess, label)
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feed = {"image": np.ones((4, 1, 8, 8), "float32"), "words": np.ones((4, 4), "int64"),
        "label": np.ones((4, 1), "int64")}
for step in range(8):
    value, right = exe.run(feed=feed, fetch_list=[loss, accuracy])
assert 0 < float(value) < 9 and 0 <= float(right) <= 1
"""

# What no plain training needs, each with what it would cost.
UNNEEDED = (
    "torch._dynamo",  # with `profile`, 300 modules and a CPU-second or two
    "torch._inductor",
    "sympy",  # with mpmath 480 modules and a quarter of a CPU-second
    "numba",
    "cProfile",
    "rich",
    "fsspec",
)


def _run(code: str, folder: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_network_imports_nothing_unneeded(tmp_path: Path) -> None:
    """`import paddle.fluid`, a network and its training steps; counted, since times vary."""
    code = f"""
import sys, torch
before = set(sys.modules)
import refluid.paddle
refluid.paddle.install()
import paddle.fluid
light = set(sys.modules) - before
{NETWORK}
print(len(light), *sorted(set(sys.modules) - before))
"""
    light, *modules = _run(code, tmp_path).split()
    assert int(light) < 15
    assert not [name for name in modules if name.startswith(UNNEEDED)]
    others = [name for name in modules if name.partition(".")[0] not in ("refluid", "paddle")]

    assert len(others) < 15
    assert len(modules) < 701


# Names of modules that torch, NumPy or sympy import late, of refluid's dependencies, and of files
# that are often beside a script.
NAMES = """
profile cProfile pstats queue code timeit token statistics decimal fractions colorsys unicodedata
secrets hmac getpass shlex sysconfig test types copy enum random string tempfile numbers calendar
sympy mpmath networkx jinja2 typing_extensions rich typer numba fsspec psutil
utils config optimizer reader layers metrics model data io parser
"""
BESIDE = [name for name in NAMES.split() if name not in sys.builtin_module_names and name != "io"]


def _write_beside(folder: Path) -> None:
    for name in BESIDE:
        (folder / f"{name}.py").write_text(f"mine = {name!r}\n")


@pytest.mark.parametrize("imported", often([False, True], [True]))
def test_files_beside_the_script_with_names_of_modules(tmp_path: Path, imported: bool) -> None:
    """Whether the script imports them or not, it gets its own, and torch the library's."""
    script, elsewhere = tmp_path / "script" / "train.py", tmp_path / "elsewhere"
    script.parent.mkdir()
    elsewhere.mkdir()
    _write_beside(script.parent)
    uses = "import importlib\nfor name in NAMES: assert importlib.import_module(name).mine == name"
    first = f"NAMES = {BESIDE!r}\n{uses}\n" if imported else ""
    statement = "import queue, profile\nprint(queue.mine, profile.mine)\n"
    script.write_text(f"{first}{NETWORK}{statement}")
    command = [sys.executable, "-m", "refluid.cli.main", "run", str(script)]
    ran = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "queue profile\n"


def test_files_beside_the_script_under_plain_python(tmp_path: Path) -> None:
    """They are on the path from the start; what torch imports is the library's all the same."""
    late = ("profile", "cProfile", "pstats", "statistics", "sympy", "colorsys", "code", "timeit")
    for name in late:
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    script = tmp_path / "train.py"
    script.write_text(f"import refluid.paddle\nrefluid.paddle.install()\n{NETWORK}print('done')\n")
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.stdout == "done\n", ran.stderr


@pytest.mark.parametrize("module", ["refluid", "refluid.cli.main"])
def test_files_of_the_current_folder_with_names_of_modules(tmp_path: Path, module: str) -> None:
    """`python -m` looks there first, also for what the command itself imports."""
    for name in ("queue", "json", "typing", "re", "logging", "socket"):
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    (tmp_path / "train.py").write_text(f"{NETWORK}import queue\nprint(queue.mine)\n")
    command = [sys.executable, "-m", module, "run", "train.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "queue\n"
