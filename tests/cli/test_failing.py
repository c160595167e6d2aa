"""What a failing script prints: the user's lines, the operator, its inputs, what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refluid.core.advice import advice_for
from tests.started import refluid

_NET = """\
import numpy as np
import paddle.fluid as fluid

def net(x):
    return {layer}

x = fluid.data('x', {shape})
loss = fluid.layers.mean(net(x))
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
exe.run(feed={{'x': np.ones((2, 1, 5, 5), 'float32')}}, fetch_list=[loss])
"""

_CONV = "fluid.layers.conv2d(x, num_filters=4, filter_size=9)"


def _failed(folder: Path, text: str, *options: str, level: int = 1) -> str:
    (folder / "fail.py").write_text(text)
    environment = os.environ | {"FLAGS_call_stack_level": str(level)}
    ran = refluid("run", *options, "fail.py", folder=folder, environment=environment)
    assert ran.returncode == 1, ran.stderr
    return ran.stderr


def test_a_window_that_is_too_large_when_it_runs(tmp_path: Path) -> None:
    said = _failed(tmp_path, _NET.format(layer=_CONV, shape=[None, 1, -1, -1])).splitlines()
    assert len(said) <= 13
    assert said[:3] == [
        "Traceback (most recent call last):",
        '  File "fail.py", line 11, in <module>',
        "    exe.run(feed={'x': np.ones((2, 1, 5, 5), 'float32')}, fetch_list=[loss])",
    ]
    assert said[3].startswith("EnforceNotMet: operator conv2d failed: ")
    assert "  Input(x): float32[2, 1, 5, 5]" in said
    assert "  Filter(conv2d_0.w_0): float32[4, 1, 9, 9]" in said
    assert '  File "fail.py", line 5, in net' in said
    assert "    return fluid.layers.conv2d(x, num_filters=4, filter_size=9)" in said
    assert "  called from fail.py:8 in <module>" in said
    assert any(line.startswith("Fix: the window") for line in said)


def test_a_window_that_is_too_large_for_what_was_declared(tmp_path: Path) -> None:
    said = _failed(tmp_path, _NET.format(layer=_CONV, shape=[None, 1, 5, 5])).splitlines()
    assert len(said) <= 17
    assert said[0].startswith(
        "operator conv2d: its filter is larger than its input x [-1, 1, 5, 5]"
    )
    assert said[1] == '  File "fail.py", line 5, in net'
    assert said[4:6] == [
        "Traceback (most recent call last):",
        '  File "fail.py", line 11, in <module>',
    ]
    assert any(line.startswith("Fix: the window") for line in said)


def test_sizes_that_are_wrong_when_a_layer_is_made(tmp_path: Path) -> None:
    layer = "fluid.layers.elementwise_add(x, fluid.layers.ones([4, 4], 'float32'))"
    said = _failed(tmp_path, _NET.format(layer=layer, shape=[None, 1, 5, 5])).splitlines()
    assert len(said) <= 12
    assert sum('File "fail.py"' in line for line in said) == 2  # the message repeats neither
    assert "x of shape [-1, 1, 5, 5]" in said[-3]
    assert any(line.startswith("Fix: ") for line in said)


def test_frames_of_refluid_and_torch_are_shown_by_a_flag(tmp_path: Path) -> None:
    text = _NET.format(layer=_CONV, shape=[None, 1, -1, -1])
    short, long = _failed(tmp_path, text), _failed(tmp_path, text, level=2)
    for part in ("convolution.py", "executor.py", "direct cause"):
        assert part in long
        assert part not in short
    assert "typer" not in short
    assert "FLAGS_call_stack_level=2" in short


def test_without_the_command_the_text_is_short(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(
        "import refluid.paddle\nrefluid.paddle.install()\n"
        + _NET.format(layer=_CONV, shape=[None, 1, -1, -1])
    )
    ran = subprocess.run(
        [sys.executable, "fail.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "convolution.py" not in ran.stderr  # torch's error, and where it was raised
    assert ran.stderr.count("Kernel size: (9 x 9)") == 1
    assert len(ran.stderr[ran.stderr.index("EnforceNotMet") :].splitlines()) <= 10


def test_causes_within_the_script_are_shown(tmp_path: Path) -> None:
    said = _failed(
        tmp_path,
        "def inner():\n    raise KeyError('lost')\n"
        "try:\n    inner()\nexcept KeyError as error:\n    raise ValueError('no') from error\n",
    )
    assert said.count("Traceback") == 2
    assert "direct cause" in said
    assert "raise KeyError('lost')" in said
    assert "FLAGS" not in said  # nothing was left out


def test_the_users_own_code_in_an_operator_is_shown(tmp_path: Path) -> None:
    said = _failed(
        tmp_path,
        "import numpy as np, paddle.fluid as fluid\n"
        "def mine(x):\n    raise ValueError('not today')\n"
        "x = fluid.data('x', [2])\n"
        "block = fluid.default_main_program().current_block()\n"
        "y = block.create_var(name='y', shape=[2], dtype='float32')\n"
        "fluid.layers.py_func(mine, x, y)\n"
        "fluid.Executor().run(feed={'x': np.ones(2, 'float32')}, fetch_list=[y])\n",
    )
    assert "raise ValueError('not today')" in said
    assert "in mine" in said


def test_long_ways_to_the_error_are_cut(tmp_path: Path) -> None:
    calls = "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(8))
    said = _failed(tmp_path, calls + "def f8():\n    raise ValueError('deep')\nf0()\n")
    assert len(said.splitlines()) == 9
    assert "fail.py:19 in <module>, fail.py:2 in f0" in said


def test_a_hook_of_the_script_is_asked(tmp_path: Path) -> None:
    said = _failed(
        tmp_path,
        "import sys\nsys.excepthook = lambda kind, *_: sys.stderr.write(f'own {kind.__name__}')\n"
        "raise ValueError\n",
    )
    assert said == "own ValueError"


def test_cuda_that_is_not_there(tmp_path: Path) -> None:
    text = (
        "import sys, paddle.fluid as fluid\n"
        "place = fluid.CUDAPlace(3)\n"
        "exe = fluid.Executor(place)\n"
        "x = fluid.layers.fill_constant([2], 'float32', 3)\n"
        "main = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel()\n"
        "print(exe.run(main, fetch_list=[x])[0].sum(), fluid.cuda_places(), file=sys.stderr)\n"
        "assert fluid.is_compiled_with_cuda() and fluid.core.get_cuda_device_count() == 1\n"
        "sys.exit(1)\n"
    )
    assert "`refluid run --place cpu SCRIPT`" in _failed(tmp_path, text)
    assert "6.0 [CPUPlace]" in _failed(tmp_path, text, "--place", "cpu")


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "num_flatten_dims"),
        ("The size of tensor a (3) must match the size of tensor b (4)", "axis="),
        ("shape '[2, 3]' is invalid for input of size 8", "-1"),
        ("expected scalar type Float but found Double", "layers.cast"),
        ("Input type (double) and bias type (float) should be the same", "layers.cast"),
        ("Sizes of tensors must match except in dimension 1", "`axis`"),
        (
            "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 1, 5, 5] to have 3 "
            "channels, but got 1 channels instead",
            "NCHW",
        ),
    ],
)
def test_advice(reason: str, word: str) -> None:
    advice = advice_for(reason)
    assert advice is not None
    assert word in advice


def test_no_advice_for_what_is_not_known() -> None:
    assert advice_for("division by zero") is None
