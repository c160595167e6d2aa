"""`scripts/run_zoo.py`: files of a branch, what a run fetched, and the verdict."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.choices import often

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def zoo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_zoo", SCRIPTS / "run_zoo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


_TRAIN = """\
import numpy as np, paddle.fluid as fluid
x = fluid.data('x', [None, 4])
loss = fluid.layers.reduce_mean(fluid.layers.square(fluid.layers.fc(x, 1)))
test = fluid.default_main_program().clone(for_test=True)
fluid.optimizer.SGD({rate}).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(10):
    exe.run(feed={{'x': np.ones((2, 4), 'float32')}}, fetch_list=[loss])
    exe.run(test, feed={{'x': np.ones((2, 4), 'float32')}}, fetch_list=[loss])
"""


def _repository(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / "models/a").mkdir(parents=True, exist_ok=True)
        (folder / f"models/a/{name}.py").write_text(text)
    git = ["git", "-C", str(folder / "models"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "release/1.8"], ["add", "-A"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], check=True)
    return folder / "models"


def test_a_script_is_run_and_judged(
    zoo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = _repository(tmp_path, good=_TRAIN.format(rate=0.1), bad=_TRAIN.format(rate=-0.01))
    recipes = [zoo.Recipe("a", f"{name}.py") for name in ("good", "bad", "gone")]
    monkeypatch.setattr(zoo, "RECIPES", recipes)
    found = [zoo.run_recipe(one, "1.8", clone, tmp_path / "run", 120) for one in recipes]
    assert [one["verdict"] for one in found] == [
        "trains",
        "loss does not fall",
        "not in this branch",
    ]
    assert len(found[0]["losses"]) == 10  # neither the startup program nor the tests
    assert "10 losses" in zoo.line_of(found[0])


@pytest.mark.slow
def test_what_is_printed_as_a_reward_has_to_rise(
    zoo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = _repository(tmp_path, earns="for one in range(9):\n    print('earned', one)\n")
    recipe = zoo.Recipe("a", "earns.py", printed=r"earned ([0-9]+)", rises=True)
    monkeypatch.setattr(zoo, "RECIPES", [recipe])
    found = zoo.run_recipe(recipe, "1.8", clone, tmp_path / "run", 120)
    assert (found["verdict"], found["losses"]) == ("trains", [float(one) for one in range(9)])


@pytest.mark.slow
def test_another_repository_by_a_tag(
    zoo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = _repository(tmp_path, good=_TRAIN.format(rate=0.1))
    subprocess.run(["git", "-C", str(clone), "tag", "v1"], check=True)
    one = zoo.Recipe(".", "a/good.py", branches=("v1",), beside=("a",), repository="Other")
    monkeypatch.setattr(zoo, "RECIPES", [one])
    found = zoo.run_recipe(one, "v1", clone, tmp_path / "run", 120)
    assert found["verdict"] == "trains"
    assert (found["repository"], found["script"]) == ("Other", "a/good.py")


def test_files_that_a_clone_lacks_are_told(zoo: ModuleType, tmp_path: Path) -> None:
    clone = _repository(tmp_path, one="1\n", other="2\n")
    name = subprocess.run(
        ["git", "-C", str(clone), "rev-parse", "release/1.8:a/one.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (clone / ".git/objects" / name[:2] / name[2:]).unlink()
    assert zoo.check_out(clone, "release/1.8", ["a"], tmp_path / "out") == ["a/one.py"]
    assert (tmp_path / "out/a/other.py").read_text() == "2\n"


def test_verdicts(zoo: ModuleType) -> None:
    falling = [3.0, 2.5, 2.0, 1.5, 1.0]
    assert zoo.verdict_of(0, falling) == "trains"
    assert zoo.verdict_of(0, falling[::-1]) == "loss does not fall"
    assert zoo.verdict_of(0, falling[::-1], rises=True) == "trains"
    for rises in (False, True):
        assert zoo.verdict_of(0, [1.0] * 5, rises=rises) == "loss does not fall"
    assert zoo.verdict_of(1, falling) == "fails (1)"
    assert zoo.verdict_of(124, falling) == "out of time"
    assert zoo.verdict_of(0, [1.0]) == "shows 1 losses"
    assert zoo.verdict_of(0, [*falling, float("nan")]) == "loss is not finite"


@pytest.mark.parametrize("every", often([4, 1], [4]))
def test_every_recipe_makes_its_data(zoo: ModuleType, tmp_path: Path, every: int) -> None:
    for number, recipe in enumerate(zoo.RECIPES[::every]):
        folder = tmp_path / str(number)
        folder.mkdir()
        recipe.make(folder, np.random.default_rng(1))
        made = any(one.is_file() for one in folder.rglob("*"))
        assert made or recipe.make.__name__ == "none"


def test_the_page_tells_what_came_of_each(zoo: ModuleType) -> None:
    from importlib import import_module

    sys.path.insert(0, str(SCRIPTS))
    try:
        page_of = import_module("zoo.page").page_of
    finally:
        sys.path.remove(str(SCRIPTS))
    one = {"script": "a/train.py", "branch": "1.8", "arguments": ["--lr 1"]}
    good = one | {
        "losses": [3.0, 2.0, 2.0, 2.0, 1.0],
        "verdict": "trains",
        "infer": 0,
        "seconds": 7,
    }
    bad = one | {"branch": "1.7", "losses": [], "verdict": "fails (1)"}
    other = good | {"repository": "Other", "arguments": ["-c small.yml"], "branch": "v1"}
    earns = good | {"script": "dygraph/a/train.py", "losses": [1.0, 2.0], "rises": True}
    page = page_of([one | {"verdict": "not in this branch"}, bad, good, other, earns])
    assert "| `dygraph/a/train.py` (rewards) | 1.8 | 2 | 1 | 2 | yes | 7 |" in page
    assert "| `Other/a/train.py` small | v1 | 5 | 3 | 1 | yes | 7 |" in page
    assert "- `Other/a/train.py -c small.yml`" in page
    assert "1 runs train with a falling loss: 1 scripts" in page
    assert "| `a/train.py` | 1.8 | 5 | 3 | 1 | yes | 7 |" in page
    assert "| `a/train.py` | 1.7 | `--lr 1` | fails (1) |" in page
    assert "not in this branch" not in page
