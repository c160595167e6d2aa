"""`refluid check`: verdicts of scripts that are not run."""

from __future__ import annotations

import json
from pathlib import Path

from refluid.porting.project import ProjectVerdict, check_project
from refluid.porting.resolving import missing_part
from refluid.porting.scanning import FindingKind
from tests.started import refluid

_MAIN = "if __name__ == '__main__':\n    main()\n"


def _verdicts(folder: Path, **files: str) -> dict[str, ProjectVerdict]:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {one.script: one for one in check_project(folder)}


def _found(verdict: ProjectVerdict, kind: FindingKind) -> list[tuple[str, int, str]]:
    return [(one.file, one.line, one.what) for one in verdict.findings if one.kind is kind]


def test_names_are_looked_up_in_the_real_modules() -> None:
    assert missing_part("paddle.fluid.layers.fc") is None
    assert missing_part("paddle.fluid.optimizer.Adam.minimize") is None
    assert missing_part("paddle.fluid.layers.no_such") == "paddle.fluid.layers.no_such"
    assert missing_part("paddle.fluid.Program.nothing") == "paddle.fluid.Program.nothing"
    assert missing_part("paddle.no_module.inner") == "paddle.no_module"


def test_missing_names_through_imports_and_aliases(tmp_path: Path) -> None:
    text = (
        "import paddle.fluid as fluid\n"
        "from paddle.fluid import layers as L, no_part\n"
        "def main():\n"
        "    nn = fluid.layers\n"
        "    nn.fc, L.conv2d, fluid.Program.clone\n"
        "    nn.not_there(1)\n"
        "    return L.neither\n"
    )
    verdict = _verdicts(tmp_path, train=text + _MAIN)["train.py"]
    assert not verdict.runs
    assert not verdict.perhaps  # the import fails
    assert _found(verdict, FindingKind.MISSING) == [
        ("train.py", 2, "paddle.fluid.no_part"),
        ("train.py", 6, "paddle.fluid.layers.not_there"),
        ("train.py", 7, "paddle.fluid.layers.neither"),
    ]


def test_what_a_script_imports_counts_for_it(tmp_path: Path) -> None:
    verdicts = _verdicts(
        tmp_path,
        good="import paddle.fluid as fluid\nfluid.layers\n" + _MAIN,
        bad="import paddle\nfrom nets.inner import net\n" + _MAIN,
        nets____init__="",
        nets__inner="from . import deep\n",
        nets__deep="import paddle.fluid as fluid\nfluid.load_op_library('own.so')\n",
        other="import json\n" + _MAIN,
    )
    assert set(verdicts) == {"good.py", "bad.py"}
    assert verdicts["good.py"].runs
    assert not verdicts["bad.py"].runs
    assert _found(verdicts["bad.py"], FindingKind.OPERATORS) == [
        ("nets/deep.py", 2, "load_op_library")
    ]


def test_what_refluid_run_sees_to_does_not_stop(tmp_path: Path) -> None:
    text = (
        "import paddle.fluid as fluid, numpy as np, cPickle\n"
        "def main():\n"
        "    print 'on', fluid.CUDAPlace(0), np.int, xrange(3)\n"
        "    fluid.Executor({}.has_key(1)).run(use_cuda=True)\n"
    )
    verdict = _verdicts(tmp_path, train=text + _MAIN)["train.py"]
    assert verdict.runs
    assert "--place cpu" in verdict.says
    assert _found(verdict, FindingKind.PYTHON2)[0][:2] == ("train.py", 3)
    assert ("train.py", 3, "CUDAPlace") in _found(verdict, FindingKind.CUDA)
    assert ("train.py", 4, "use_cuda=True") in _found(verdict, FindingKind.CUDA)
    assert ("train.py", 3, "numpy.int") in _found(verdict, FindingKind.OLD)


def test_what_only_a_call_meets_is_perhaps(tmp_path: Path) -> None:
    text = "import paddle.fluid as fluid\ndef main():\n    fluid.layers.no_such()\n"
    verdicts = _verdicts(tmp_path, train=text + _MAIN, loop="import train\nfor _ in 'a':\n    1\n")
    assert [one.perhaps for one in verdicts.values()] == [True, True]
    assert "unless it calls what lacks: paddle.fluid.layers.no_such" in verdicts["train.py"].says


def test_what_only_a_function_imports_is_perhaps(tmp_path: Path) -> None:
    text = "import paddle\ndef main():\n    import fast\n"
    verdicts = _verdicts(tmp_path, train=text + _MAIN, fast="import no_such_package\n")
    assert verdicts["train.py"].perhaps
    assert "needs packages: no_such_package" in verdicts["train.py"].says


def test_folders_that_a_script_adds_to_the_path(tmp_path: Path) -> None:
    text = "import sys, paddle\nsys.path.append('../shared')\nfrom nets import net\n"
    verdicts = _verdicts(
        tmp_path,
        inner__train=text + _MAIN,
        shared__nets__net="import paddle\npaddle.no_such\n",
    )
    assert _found(verdicts["inner/train.py"], FindingKind.PACKAGE) == []
    assert _found(verdicts["inner/train.py"], FindingKind.MISSING)[0][0] == "shared/nets/net.py"


def test_packages_and_unreadable_files(tmp_path: Path) -> None:
    verdicts = _verdicts(
        tmp_path,
        train="import paddle, no_such_package, nets\n"
        "try:\n    import not_that_one\nexcept ImportError:\n    pass\n" + _MAIN,
        nets="",
        broken="def (:\n",
    )
    assert "needs packages: no_such_package" in verdicts["train.py"].says
    assert "not_that_one" not in verdicts["train.py"].says
    assert "can't be read" in verdicts["broken.py"].says


def test_the_command(tmp_path: Path) -> None:
    _verdicts(tmp_path, train="import paddle.fluid as f\nf.layers.no_such\n" + _MAIN)
    ran = refluid("check", str(tmp_path))
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[0] == "NO  train.py: lacks: paddle.fluid.layers.no_such"
    assert "train.py:2: missing" in ran.stdout
    ran = refluid("check", str(tmp_path), "--json")
    (found,) = json.loads(ran.stdout)
    assert found["findings"][0]["line"] == 2
    assert not found["runs"]


def test_builtins_of_python_2_unless_a_file_has_its_own(tmp_path: Path) -> None:
    text = "import paddle.fluid\nfor n in xrange(3): print(reduce(max, [n]))\n"
    own = "import paddle.fluid\ndef xrange(n): return n\ndef f(file): return file, xrange(2)\n"
    found = _verdicts(tmp_path, old=text, new=f"{own}{_MAIN}")
    old = _found(found["old.py"], FindingKind.OLD)
    assert old == [("old.py", 2, "reduce"), ("old.py", 2, "xrange")]
    assert _found(found["new.py"], FindingKind.OLD) == []
