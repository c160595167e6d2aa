"""`refluid run --profile` and `--memory`, and `refluid timeline`."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.cli.page import Share, curve, table
from tests.started import refluid

SCRIPT = """\
import numpy as np
import paddle.fluid as fluid
import paddle.fluid.profiler as profiler

x = fluid.data("x", [None, 64])
w = fluid.layers.create_parameter([64, 128], "float32", name="w")
loss = fluid.layers.mean(fluid.layers.relu(fluid.layers.mul(x, w)))
fluid.optimizer.Adam(1e-3).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.random.rand(32, 64).astype("float32")}
for step in range(6):
    exe.run(feed=feed, fetch_list=[loss])
with profiler.profiler("All", "total", "kept.profile"):
    exe.run(feed=feed, fetch_list=[loss])
"""


class Checker(HTMLParser):
    """Fails where a page's elements aren't closed in order, or it needs anything from elsewhere."""

    EMPTY = frozenset({"meta", "line"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def text_of(page: Path) -> str:
    checker = Checker()
    checker.feed(page.read_text(encoding="utf-8"))
    assert not checker.open
    return checker.text


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    (folder / "train.py").write_text(SCRIPT)
    options = ["--profile", "time.html", "--memory", "memory.txt", "train.py"]
    found = refluid("run", *options, folder=folder)
    assert found.returncode == 0, found.stderr
    assert "time.html" in found.stderr
    assert "memory.txt" in found.stderr
    return folder


def test_the_page_says_where_time_goes(ran: Path) -> None:
    text = text_of(ran / "time.html")
    for heading in ("Time by operator", "Time by layer", "Time by your line"):
        assert heading in text
    for fact in ("mul_grad", "mul_0", "train.py:7", "GFLOP/s", "Memory over one step", "adam"):
        assert fact in text


def test_the_memory_report_names_lines(ran: Path) -> None:
    text = (ran / "memory.txt").read_text(encoding="utf-8")
    assert "measured peak" in text
    assert "w_moment1_0" in text
    assert "train.py:7" in text


def test_memory_page(ran: Path) -> None:
    refluid("run", "--memory", "m.html", "train.py", folder=ran, check=True)
    assert "Largest tensors at the peak" in text_of(ran / "m.html")


@pytest.mark.parametrize("style", ["own", "fluid"])
def test_timeline(ran: Path, tmp_path: Path, style: str) -> None:
    profile, out = str(ran / "kept.profile"), str(tmp_path / "out.json")
    given = [profile, out]
    if style == "fluid":
        given = ["--profile_path", f"a={profile},b={profile}", "--timeline_path", out]
    result = CliRunner().invoke(app, ["timeline", *given])
    assert result.exit_code == 0, result.output
    trace = json.loads(Path(out).read_text())["traceEvents"]
    names = {event["name"] for event in trace if event["ph"] == "X"}
    assert {"mul", "mul_grad", "adam"} <= names
    tracks = {e["args"]["name"] for e in trace if e["name"] == "process_name"}
    assert tracks == (
        {"operators", "memory"}
        if style == "own"
        else {"a: operators", "a: memory", "b: operators", "b: memory"}
    )


def test_timeline_refuses(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xff\xff")
    for given in ([], [str(tmp_path / "none"), "out"], [str(broken), "out"]):
        assert CliRunner().invoke(app, ["timeline", *given]).exit_code == 2


def test_cells_are_escaped() -> None:
    text = table(["a", "b"], [["<x>", Share(2.0)]], numbers="a")
    assert "&lt;x&gt;" in text
    assert "width:100.0%" in text


def test_a_curve_marks_its_peak() -> None:
    assert "peak: relu" in curve([1, 3, 2], ["mul", "relu", "mean"], 1)
