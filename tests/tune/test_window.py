"""Scripts at their gate: loops are recognised, windows run again alike, and no file changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from refluid.engine.choices import NONE, Choices
from refluid.engine.knobs import KnobScope
from refluid.tune import trainers
from refluid.tune.session import NoLoop, Script, TrialFailed
from refluid.tune.trainers import AtGate
from tests.tune import scripts

TIER = NONE.put(KnobScope.FLAG, "FLAGS_refluid_tier", "interpreted")
THREADS = NONE.put(KnobScope.EXECUTION, "num_threads", 4)
KINDS = {
    "plain": scripts.PLAIN,
    "compiled": scripts.COMPILED,
    "parallel": scripts.PARALLEL,
    "reading": scripts.READING,
    "loaded": scripts.LOADED,
    "dataset": scripts.DATASET,
}
# Leaves traces wherever a script might.
WRITING = """\
import os, shutil, subprocess, tempfile
open("log.txt", "w").write("begun")
os.remove("kept.txt")
os.makedirs("out/deep")
shutil.rmtree("models")
subprocess.run("echo more >> notes.txt", shell=True, check=True)
assert open("notes.txt").read() == "some\\nmore\\n" and open("log.txt").read() == "begun"
open(os.path.expanduser("~/traces-of-a-script"), "w").write("x")
"""


def covered() -> bool:
    command = [sys.executable, "-m", "refluid.tune.apart", "", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_cover = pytest.mark.skipif(not covered(), reason="no namespaces of mounts here")


def at_gate(tmp_path: Path, source: str, choices: Choices = NONE) -> AtGate:
    path = tmp_path / "train.py"
    path.write_text(source)
    return trainers.at_gate(Script([str(path)], unprotected=not covered()), choices)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_runs_again_alike(kind: str, tmp_path: Path) -> None:
    session = at_gate(tmp_path, KINDS[kind])
    try:
        life = session.life
        assert life.steps >= 2 and life.inside > 0
        assert life.period == pytest.approx(life.inside + life.outside)
        first, other, again = (
            session.ask("replay", choices, steps=6) for choices in (NONE, TIER, NONE)
        )
        assert len(first["seconds"]) == 6 and first["losses"] != first["losses"][::-1]
        assert again["losses"] == first["losses"] and again["norm"] == first["norm"]
        np.testing.assert_allclose(other["losses"], first["losses"], rtol=1e-5)
        profile = session.ask("profile")
        assert profile["operators"] > 10 and profile["ms"] > 0 and profile["flops"] > 1000
        assert any("train.py" in line for line, _ in profile["by_line"])
        if kind in ("compiled", "parallel"):
            threaded = session.ask("replay", THREADS, steps=6)
            np.testing.assert_allclose(threaded["losses"], first["losses"], rtol=1e-4)
        assert session.go(NONE).steps >= 2
        assert session.ask("replay", NONE, steps=2)["losses"]
    finally:
        session.close()


@pytest.mark.slow
def test_kernels_layouts_and_parts_are_chosen_on_a_window(tmp_path: Path) -> None:
    session = at_gate(tmp_path, scripts.IMAGES)
    try:
        profile = session.ask("profile")
        use = profile["kernels"]
        assert "conv2d" in use["chosen"] and use["convolves"] and use["laid"]
        assert profile["varied"] and profile["plain"]
        first = session.ask("replay", NONE, steps=8)
        changed = []
        for name, value in (
            ("FLAGS_refluid_native_kernels", "conv2d"),
            ("FLAGS_refluid_onednn_from", 2**18),
            ("FLAGS_refluid_channels_last", "never"),
            ("FLAGS_refluid_record_after", 0),
            ("FLAGS_refluid_batch_parts", 4),
        ):
            choices = NONE.put(KnobScope.FLAG, name, value)
            for _ in range(2):  # in turns
                found = session.ask("replay", choices, steps=8)
                np.testing.assert_allclose(found["losses"], first["losses"], rtol=1e-3)
                again = session.ask("replay", NONE, steps=8)
                np.testing.assert_allclose(again["losses"], first["losses"], rtol=1e-6)
            changed.append(found["losses"] != first["losses"])
        assert any(changed)
    finally:
        session.close()


@needs_cover
def test_what_a_script_writes_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "notes.txt").write_text("some\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a").write_text("weights")
    path = tmp_path / "train.py"
    path.write_text(WRITING + scripts.PLAIN)
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        session = trainers.at_gate(Script(["train.py"]))
    finally:
        os.chdir(here)
    session.close()
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "kept.txt", "models", "notes.txt", "train.py",
    ]  # fmt: skip
    assert not (Path.home() / "traces-of-a-script").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # tests/tune/test_tune.py has the first, and below is one that is killed at its gate.
        pytest.param("print('done')", "ended before", marks=pytest.mark.slow),
        ("raise ValueError('as asked')", "ValueError: as asked"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "ended", marks=pytest.mark.slow),
    ],
)
def test_scripts_without_a_loop(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(NoLoop, match=said):
        at_gate(tmp_path, text)


def test_a_trial_that_fails_leaves_the_script_at_its_gate(tmp_path: Path) -> None:
    session = at_gate(tmp_path, scripts.PLAIN)
    try:
        with pytest.raises(TrialFailed, match="KeyError"):
            session.ask("dance")
        assert session.ask("replay", NONE, steps=1)["losses"]
        os.killpg(session._process.pid, signal.SIGKILL)
        with pytest.raises(TrialFailed, match=r"ended|gone"):
            session.ask("replay", NONE, steps=1)
    finally:
        session.close()


def test_a_script_ends_with_its_tuner(tmp_path: Path) -> None:
    session = at_gate(tmp_path, scripts.PLAIN)
    process = session._process
    session._talk.close()  # as when the tuner is killed
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    status = process.poll()
    session.close()
    assert status == 0
