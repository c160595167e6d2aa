"""Numbers and arrays of NumPy's are to old scripts what they were before NumPy 2."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.porting.given_back import combined
from refluid.porting.numpy_numbers import NumpyValues
from tests.started import refluid


def test_arrays_of_one_element_are_numbers(tmp_path: Path) -> None:
    """Also those that the script makes itself."""
    text = (
        "import math\n"
        "import numpy as np\n"
        "one = np.ones((1, 1)) * 2.5\n"
        "assert int(one) == 2 and float(one[0]) == 2.5 and int('7') == 7 and int('11', 2) == 3\n"
        "assert '%.1f %d %s' % (one, one[0], one[0]) == '2.5 2 [2.5]'\n"
        "assert '%.1f' % one == '2.5' and '%(a)s' % {'a': 1} == '1'\n"
        "form, more = '%.1f %d', True\n"
        "assert form % (one, one) == '2.5 2' and 7 % 4 == 3\n"
        "assert ('%.1f' + (' %d' if more else '')) % (one, one) == '2.5 2'\n"
        "assert math.floor(one) == 2 and math.pow(one, 2) == 6.25 and math.ceil(0.5) == 1\n"
        "for wrong in (lambda: int(np.ones(2)), lambda: '%d' % np.ones(2), lambda: float(None)):\n"
        "    try:\n"
        "        wrong()\n"
        "    except TypeError:\n"
        "        continue\n"
        "    raise SystemExit('no error')\n"
        "assert one.ptp() == 0 and np.arange(4).ptp(0) == 3\n"
        "one.itemset(0, 0, 4)\n"
        "assert one.tolist() == [[4.0]]\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_a_fetched_array_is_of_numpys_type(tmp_path: Path) -> None:
    """To scripts that ask for exactly this type; classes are made by `type` as ever."""
    text = (
        "import numpy as np\n"
        "import paddle.fluid as fluid\n"
        "found, = fluid.Executor().run(fetch_list=[fluid.layers.ones([2], 'float32')])\n"
        "assert type(found) == np.ndarray and type(found * 2) is np.ndarray\n"
        "assert type(found).__name__ == 'ndarray' and type(found[0]) is np.float32\n"
        "assert type(np.ones(1)) is np.ndarray and type(1) is int and type(type) is type\n"
        "class Meta(type):\n"
        "    pass\n"
        "Made = Meta('Made', (object,), {'here': 1})\n"
        "assert type(Made) is Meta and type('Other', (Made,), {}).here == 1\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_numbers_print_without_their_type(tmp_path: Path) -> None:
    """Alone and in lists, which scripts write into files and read again."""
    text = (
        "import numpy as np\n"
        "tokens = list(np.arange(3))\n"
        "assert str(tokens) == '[0, 1, 2]' and eval(str(tokens), {}) == tokens\n"
        "assert '%s' % {'loss': np.float32(0.5)} == \"{'loss': 0.5}\"\n"
        "assert repr(np.float64(0.1)) == '0.1' and str([np.bool_(True)]) == '[True]'\n"
        "assert repr(np.ones(2)) == 'array([1., 1.])'\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


ONE = np.ones(3, "float32")


@pytest.mark.parametrize(
    ("array", "number", "expected"),
    [
        (ONE, np.float64(0.1), "float32"),
        (ONE, np.float64("nan"), "float32"),
        (ONE, np.float64(1e300), "float64"),
        (ONE, np.int64(300), "float32"),
        (ONE, np.int64(2**40), "float64"),
        (ONE, np.float32(2), "float32"),
        (ONE, np.complex128(1), "complex64"),
        (ONE.astype("float16"), np.float64(2), "float16"),
        (ONE.astype("float16"), np.float64(1e6), "float32"),
        (ONE.astype("float64"), np.float32(2), "float64"),
        (ONE.astype("uint8"), np.int64(2), "uint8"),
        (ONE.astype("uint8"), np.int64(300), "uint16"),
        (ONE.astype("uint8"), np.int64(-1), "int16"),
        (ONE.astype("int8"), np.int64(127), "int8"),
        (ONE.astype("int8"), np.int64(128), "int16"),
        (ONE.astype("int64"), np.int32(2), "int64"),
        (ONE.astype("int32"), np.float64(2), "float64"),
        (np.array(2, "float32"), np.float64(2), "float64"),
    ],
)
def test_numbers_make_arrays_no_wider_than_numpy_1_did(
    array: Any, number: Any, expected: str
) -> None:
    """The types are those that NumPy 1.26 gave."""
    with np.errstate(over="ignore", invalid="ignore"):
        for found in (combined("*", array, number), combined("+", number, array)):
            assert found.dtype == expected


FILE = """
import numpy as np
class Net:
    def __init__(self, data, other, plain):
        self.scale = np.sqrt(2)
        first, second = 3, np.log(10)
        for third in np.linspace(0, 1, 3):
            held = [fourth for place, fourth in zip(plain, other)]
        for place, fifth in enumerate(np.ones(3)):
            {} + {}
"""


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("data", "np.sqrt(2)", True),
        ("data", "self.scale", True),
        ("data[0]", "-second", True),
        ("data", "(1 - second)", True),
        ("data", "data.mean()", True),
        ("data", "third", True),
        ("data", "fifth", True),
        ("data", "fourth", False),
        ("data", "first", False),
        ("data", "other", False),
        ("first", "len(data)", False),
    ],
)
def test_operations_that_may_have_numbers_of_numpys_are_found(
    one: str, other: str, may: bool
) -> None:
    tree = ast.parse(FILE.format(one, other))
    (*_, operation) = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    assert NumpyValues(tree).may_be(operation.value) is may
    assert not NumpyValues(ast.parse("import math as np\nx = np.sqrt(2)")).may_be(
        ast.parse("x + 1", mode="eval").body
    )


def test_a_script_feeds_what_it_fed(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "import paddle.fluid as fluid\n"
        "x = fluid.data('x', [None, 3])\n"
        "out = fluid.layers.scale(x, 2.0)\n"
        "exe = fluid.Executor(fluid.CPUPlace())\n"
        "data = np.ones((2, 3), 'float32')\n"
        "for alpha in np.linspace(0, 1, 3):\n"
        "    fed = data * alpha + data * (1 - alpha)\n"
        "    assert exe.run(feed={'x': fed}, fetch_list=[out])[0].tolist() == [[2.0] * 3] * 2\n"
        "    assert type(1 - alpha) is np.float64 and (alpha * alpha).dtype == 'float64'\n"
        "many = np.zeros(2)\n"
        "for one, alpha in enumerate(many):\n"
        "    out = out * one - alpha * x\n"
        "stack = fluid.default_main_program().global_block().ops[-1].attr('op_callstack')\n"
        "assert [one for one in stack if 'File' in one] == [stack[0]], stack\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
