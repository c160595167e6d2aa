"""What libraries refuse that they took in Fluid's time, under `refluid run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.started import refluid

# As ruamel.yaml is since its release 0.18: the function is there, and refuses.
_RUAMEL = """
class YAML:
    def __init__(self, typ, pure):
        assert (typ, pure) == ("safe", True)

    def load(self, stream):
        return {"read": stream}


def safe_load(stream, version=None):
    raise AttributeError("safe_load() has been removed")
"""


def test_safe_load_of_ruamel(tmp_path: Path) -> None:
    (tmp_path / "ruamel").mkdir()
    (tmp_path / "ruamel" / "__init__.py").touch()
    (tmp_path / "ruamel" / "yaml.py").write_text(_RUAMEL)
    (tmp_path / "train.py").write_text(
        "import ruamel.yaml\n"
        "from ruamel import yaml\n"
        "assert ruamel.yaml.safe_load('a') == {'read': 'a'}\n"
        "assert yaml.safe_load('b') == {'read': 'b'}\n"
    )
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_draws_from_rows_of_different_lengths(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "from numpy import random\n"
        "from numpy.random import permutation\n"
        "options = (None, (0.1, None), (0.3, None, 2))\n"
        "random.seed(1); drawn = [random.choice(options) for _ in range(9)]\n"
        "np.random.seed(1); places = [np.random.choice(3) for _ in range(9)]\n"
        "assert drawn == [options[place] for place in places]\n"
        "assert np.random.choice(a=[3, 4], size=2, replace=False).sum() == 7\n"
        "assert sorted(permutation([[1], [2, 3]]), key=len) == [[1], [2, 3]]\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_stacks_what_generators_make(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "from numpy import hstack\n"
        "assert np.stack((np.ones(2) for _ in range(3)), axis=1).shape == (2, 3)\n"
        "assert np.vstack(map(np.ones, [2, 2, 2])).shape == (3, 2)\n"
        "assert hstack(np.ones(i) for i in range(4)).shape == (6,)\n"
        "assert np.vstack(tup=[[1], [2]]).shape == np.stack(np.ones([2, 1])).shape == (2, 1)\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_packages_installed_into_a_folder_of_their_own_keep_their_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one tries `iteritems` for the sake of Python 2, its numbers still divide as now."""
    installed = tmp_path / "installed"
    (installed / "halving").mkdir(parents=True)
    (installed / "halving-1.0.dist-info").mkdir()
    text = "def half(n):\n    return n / 2\n\n\ndef items(d):\n    return d.iteritems()\n"
    for name in ("__init__", "inner"):
        (installed / "halving" / f"{name}.py").write_text(text)
    (tmp_path / "train.py").write_text(
        "import halving, halving.inner\nassert halving.half(7) == halving.inner.half(7) == 3.5\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=":")
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr


def test_names_of_numpy_that_scipy_had(tmp_path: Path) -> None:
    text = (
        "import numpy as np\n"
        "import scipy, math\n"
        "from scipy import array, log\n"
        "scipy.random.seed(1); drawn = scipy.random.rand(2)\n"
        "np.random.seed(1); assert (drawn == np.random.rand(2)).all()\n"
        "assert scipy.ones(3).sum() == array([1, 2]).sum() == 3 and scipy.pi == np.pi\n"
        "assert scipy.sqrt(-4) == 2j and log(-1).imag == math.pi and math.floor(2.5) == 2\n"
        "assert scipy.linalg.norm([3, 4]) == 5 and scipy.fft.fft([1.0])[0] == 1\n"
    )
    (tmp_path / "train.py").write_text(text)
    ran = refluid("run", "train.py", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
