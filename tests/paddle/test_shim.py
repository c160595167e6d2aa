"""`pip install ./paddle-shim` in an environment made for the test."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import paddle.fluid as fluid
import refluid.fluid
import os
assert fluid is refluid.fluid
print("trained", os.environ.get("PADDLE_TRAINER_ID"))
"""


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The Python of an environment that has refluid and what it needs, and no `paddle`."""
    made = tmp_path / "env"
    venv.create(made, with_pip=False)
    sites = next((made / "lib").glob("python*")) / "site-packages"
    paths = [str(ROOT / "src"), *{sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}]
    (sites / "refluid.pth").write_text("\n".join(paths))
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(made / "bin" / "python")


def _install(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps")
    return _run(folder, *pip, "--no-index", str(ROOT / "paddle-shim"))


def _real_paddle(python: str) -> Path:
    """What a real paddlepaddle leaves in an environment, as far as it is looked for."""
    sites = next((Path(python).parents[1] / "lib").glob("python*")) / "site-packages"
    real = sites / "paddlepaddle_gpu-2.6.2.dist-info"
    real.mkdir()
    (real / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: paddlepaddle-gpu\nVersion: 2.6.2\n"
    )
    return real


def test_plain_python_finds_refluid(tmp_path: Path, python: str) -> None:
    before = _run(tmp_path, python, "train.py")
    assert "No module named 'paddle'" in before.stderr
    installed = _install(tmp_path, python)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    ran = _run(tmp_path, python, "train.py")
    assert ran.stdout.strip() == "trained None", ran.stderr
    launched = _run(
        *(tmp_path, python, "-m", "paddle.distributed.launch", "--selected_gpus", "0", "train.py")
    )
    assert launched.stdout.splitlines()[-1:] == ["trained 0"], launched.stderr
    fleetrun = str(Path(python).with_name("fleetrun"))
    for command in (
        (python, "-m", "paddle.distributed.launch"),
        (python, "-m", "paddle.distributed.fleet.launch"),
        (fleetrun,),
    ):
        several = _run(tmp_path, *command, "--nproc_per_node=2", "train.py")
        assert several.returncode == 0, several.stdout + several.stderr
        assert several.stdout.splitlines()[-1] == "trained 0"
        log = (tmp_path / "log/workerlog.1").read_text()
        assert log.splitlines()[-1] == "trained 1", log


def test_it_is_not_installed_beside_paddlepaddle(tmp_path: Path, python: str) -> None:
    _real_paddle(python)
    refused = _install(tmp_path, python)
    assert refused.returncode != 0
    assert "paddlepaddle is installed" in refused.stdout + refused.stderr
    assert "No module named 'paddle'" in _run(tmp_path, python, "train.py").stderr


def test_it_is_not_imported_beside_paddlepaddle(tmp_path: Path, python: str) -> None:
    assert _install(tmp_path, python).returncode == 0
    _real_paddle(python)
    refused = _run(tmp_path, python, "train.py")
    assert refused.returncode == 1
    assert "ImportError: paddlepaddle is installed" in refused.stderr
    assert "pip uninstall paddlepaddle" in refused.stderr
