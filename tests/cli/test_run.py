"""`refluid run` passes everything on: arguments, output, errors, exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.choices import often
from tests.started import refluid


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "beside.py").write_text("word = 'found'\n")
    path = folder / "train.py"
    path.write_text(
        "import sys\n"
        "import paddle, paddle.fluid as fluid\n"
        "import beside\n"
        "print(__name__, sys.argv[1:], fluid.__name__, beside.word)\n"
        "if 'fail' in sys.argv: raise ValueError('as asked')\n"
        "if 'stop' in sys.argv: sys.exit(7)\n"
        "sys.stderr.write('own words\\n')\n"
    )
    return path


def test_output_and_arguments_are_the_scripts(script: Path, tmp_path: Path) -> None:
    given = ["--lr", "0.1", "-m", "--help", "--", "x"]
    ran = refluid("run", "inner/train.py", *given, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"__main__ {given} refluid.fluid found\n"
    assert ran.stderr == "own words\n"


def test_module_form(script: Path) -> None:
    ran = refluid("run", "-m", "train", "--epochs", "3", folder=script.parent)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "__main__ ['--epochs', '3'] refluid.fluid found\n"


def test_exit_status(script: Path, tmp_path: Path) -> None:
    assert refluid("run", str(script), "stop", folder=tmp_path).returncode == 7


def test_error_shows_the_scripts_frames_only(script: Path, tmp_path: Path) -> None:
    ran = refluid("run", str(script), "fail", folder=tmp_path)
    assert ran.returncode == 1
    assert ran.stderr.startswith("Traceback (most recent call last):\n")
    assert ran.stderr.endswith("ValueError: as asked\n")
    assert ran.stderr.count('File "') == 1
    assert "train.py" in ran.stderr


def test_missing_script(tmp_path: Path) -> None:
    ran = refluid("run", "nowhere.py", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "no such script: nowhere.py" in ran.stderr


def test_version(tmp_path: Path) -> None:
    ran = refluid("--version", folder=tmp_path)
    assert ran.stdout.startswith("refluid ")


def test_as_fluid_cpu_computes_its_faults(tmp_path: Path) -> None:
    """Fluid's CPU leaves out images that don't fill a group of im2col_step."""
    (tmp_path / "deform.py").write_text(
        "import numpy as np, paddle.fluid as fluid\n"
        "x, o = fluid.data('x', [1, 1, 3, 3]), fluid.data('o', [1, 2, 3, 3])\n"
        "out = fluid.layers.deformable_conv(x, o, None, 1, 1, modulated=False, bias_attr=False)\n"
        "exe = fluid.Executor()\n"
        "exe.run(fluid.default_startup_program())\n"
        "feed = {'x': np.ones((1, 1, 3, 3), 'f4'), 'o': np.zeros((1, 2, 3, 3), 'f4')}\n"
        "print(bool(exe.run(feed=feed, fetch_list=[out])[0].any()))\n"
    )
    assert refluid("run", "deform.py", folder=tmp_path).stdout == "True\n"
    assert refluid("run", "--as-fluid-cpu", "deform.py", folder=tmp_path).stdout == "False\n"


def test_watch_says_whether_readers_keep_up(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import time, numpy, paddle.fluid as fluid\n"
        "x = fluid.data('x', [None, 1])\n"
        "def slow():\n"
        "    for _ in range(8):\n"
        "        time.sleep(0.02)\n"
        "        yield [numpy.zeros((1, 1), 'float32')]\n"
        "loader = fluid.io.DataLoader.from_generator([x], 2)\n"
        "loader.set_batch_generator(slow, fluid.CPUPlace())\n"
        "print(len(list(loader())))\n"
    )
    found = refluid("run", "--watch", str(script), folder=tmp_path)
    assert found.stdout == "8\n"
    assert "DataLoader(x): reader-bound; produces" in found.stderr
    assert "use_multiprocess=True" in found.stderr


def test_copies_of_what_was_fetched_are_numbers(tmp_path: Path) -> None:
    """As in scripts that were written for NumPy before 2.4."""
    (tmp_path / "loss.py").write_text(
        "import numpy as np\n"
        "import paddle.fluid as fluid\n"
        "x = fluid.layers.fill_constant([1], 'float32', 2.5)\n"
        "exe = fluid.Executor()\n"
        "one, = exe.run(fetch_list=[x])\n"
        "two, = exe.run(fetch_list=[x], return_numpy=False)\n"
        "for copied in (np.array(one), np.asarray(one), np.array(two), np.array([one])):\n"
        "    assert isinstance(copied, np.ndarray)\n"
        "    print(float(copied), '%.1f' % copied, int(copied))\n"
        "print(type(np.array([1.0])) is np.ndarray, np.array([[1, 2]], dtype='int8').shape)\n"
    )
    ran = refluid("run", "loss.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "2.5 2.5 2\n" * 4 + "True (1, 2)\n"


def test_a_scripts_own_print_options_hold(tmp_path: Path) -> None:
    """Beside those by which NumPy's numbers in lists print as they did before NumPy 2."""
    lines = [
        "import numpy as np, paddle.fluid",
        "print([np.int64(1), np.float32(0.5)], np.float32([1 / 3]))",
        "np.set_printoptions(precision=3, threshold=4)",
        "print([np.int64(1)], np.float32([1 / 3]), np.arange(9))",
        "with np.printoptions(precision=1): print([np.int64(1)], np.float32([1 / 3]))",
        "print(np.float32([1 / 3]))",
    ]
    (tmp_path / "train.py").write_text("\n".join(lines))
    ran = refluid("run", "train.py", folder=tmp_path, check=True)
    first, *others = ran.stdout.splitlines()
    assert first == "[1, 0.5] [0.33333334]"
    assert others == ["[1] [0.333] [0 1 2 ... 6 7 8]", "[1] [0.3]", "[0.333]"]


@pytest.mark.parametrize("how", often(["spawn", "forkserver"], ["forkserver"]))
def test_processes_started_anew_have_paddle_and_old_names(tmp_path: Path, how: str) -> None:
    """Such a process runs the script's file again before it does anything else.

    It is looked for where Python began, so that this one is started by `subprocess`.
    """
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "queue.py").write_text("word = 'mine'\n")  # torch imports one of that name
    (folder / "train.py").write_text(
        "import multiprocessing, numpy as np, queue\n"
        "import paddle.fluid as fluid\n"
        "kind = np.float\n"
        "def work(number):\n"
        "    with fluid.dygraph.guard(fluid.CUDAPlace(0)):\n"
        "        x = fluid.dygraph.to_variable(np.full([2], number, kind))\n"
        "        print(__name__, fluid.layers.reduce_sum(x).numpy(), queue.word)\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context('{how}')\n"
        "    worker = context.Process(target=work, args=(3,))\n"
        "    worker.start()\n"
        "    worker.join()\n"
        "    print(worker.exitcode)\n"
    )
    program = tmp_path / "refluid_here.py"
    program.write_text("import runpy; runpy.run_module('refluid', run_name='__main__')")
    command = [sys.executable, str(program), "run", "--place", "cpu", "train.py"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.stdout == "__mp_main__ [6.] mine\n0\n", ran.stderr
